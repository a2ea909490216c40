/** Backups on request and by the clock: where they may lie, and what is counted. */
import { basename, dirname, join, resolve } from 'node:path'
import type { BackupDirectories, BackupManifest, BackupService, Svc } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import type { CheckpointConfig } from './config.ts'
import { confine } from './confine.ts'
import { type BackupMetrics, backupMetrics } from './metrics.ts'
import type { BackupAnswer } from './schemas.ts'

const EIGHT_DIGITS = /^[0-9a-f]{8}$/
const LEFT = 'a restore that was cut short has left these; remove them, unless another restore to this target is under way'

export class BackupHandler {
  private readonly svc: Svc
  private readonly config: CheckpointConfig
  private readonly metrics: BackupMetrics

  constructor(svc: Svc, config: CheckpointConfig) {
    this.svc = svc
    this.config = config
    this.metrics = backupMetrics(svc.metrics)
  }

  async backup(targetDir: string): Promise<BackupAnswer> {
    return this.make(await this.confined(targetDir, 'target_dir'))
  }

  async verify(backupDir: string): Promise<BackupAnswer> {
    return answerOf(await this.service.verify(await this.confined(backupDir, 'backup_dir')))
  }

  async restore(backupDir: string, targetDir: string): Promise<BackupAnswer> {
    const from = await this.confined(backupDir, 'backup_dir')
    const to = await this.confined(targetDir, 'target_dir')
    const left = await this.leftOf(to)
    if (left.length > 0) this.svc.log.warn({ directories: left }, LEFT)
    const manifest = await this.service.restore(from, to)
    this.svc.log.info({ backup: from, directory: to, bytes: manifest.bytes }, 'restored a backup')
    return answerOf(manifest)
  }

  /** What restores to a target were building when their process ended (docs/formats/backup.md). Another may be under way, so that it is named and not removed. */
  private async leftOf(target: string): Promise<string[]> {
    const parent = dirname(target)
    const siblings = (await this.service.directories?.list(parent).catch(() => [])) ?? []
    const prefix = `${basename(target)}.restoring-`
    return siblings.flatMap(({ name }) => (name.startsWith(prefix) && EIGHT_DIGITS.test(name.slice(prefix.length)) ? join(parent, name) : []))
  }

  /** Whether there is a whole one already. */
  private async isBackup(directory: string): Promise<boolean> {
    const there = (await this.service.directories?.list(dirname(directory)).catch(() => [])) ?? []
    return there.some(({ name, finished }) => finished && name === basename(directory))
  }

  /** A scheduled one that cannot be made is a failure whatever the reason; a request that was refused is not. */
  async checkpoint(directory: string): Promise<BackupAnswer> {
    return this.make(directory, () => true)
  }

  /** Of a checkpoint that could not be begun. */
  countFailure(): void {
    this.metrics.failed.inc()
  }

  /** @throws CONFIG_ERROR where checkpoints could not be cleared away, or be looked at for when the next is due. */
  get directories(): BackupDirectories {
    const { directories, name = 'a place of their own' } = this.service
    if (directories !== undefined) return directories
    throw new SvcError(
      'CONFIG_ERROR',
      `cannot make checkpoints by database.checkpoints.interval_secs: the storage engine keeps backups on ${name}, where it can neither list nor remove them; set it to 0, have a scheduler send POST /api/v1/admin/backup, and clear old ones away by the means of that place`,
    )
  }

  get checkpointDirectory(): string {
    const { directory } = this.config
    return directory === undefined ? join(this.root, 'checkpoints') : resolve(directory)
  }

  private confined(given: string, member: string): Promise<string> {
    const { directories } = this.service
    return confine(this.root, given, member, directories === undefined ? undefined : (path) => directories.resolve(path))
  }

  private get root(): string {
    const { backup_root: root } = this.svc.server
    return root === undefined ? this.service.root : resolve(root)
  }

  private get service(): BackupService {
    return this.svc.storage.backup as BackupService // the capability promises it
  }

  private async make(directory: string, isFailure = began): Promise<BackupAnswer> {
    const { clock, log } = this.svc
    const started = clock.monotonic()
    const replaces = await this.isBackup(directory)
    try {
      const manifest = await this.service.create(directory)
      const seconds = (clock.monotonic() - started) / 1000
      this.metrics.made.inc()
      this.metrics.bytes.inc(manifest.bytes)
      this.metrics.seconds.observe(seconds)
      const entry = { directory, bytes: manifest.bytes, ...manifest.statistics, ms: Math.round(seconds * 1000) }
      log.info(entry, replaces ? 'made a backup in the place of an older one, which is gone' : 'made a backup')
      return answerOf(manifest)
    } catch (error) {
      if (isFailure(error)) this.metrics.failed.inc()
      throw error
    }
  }
}

const began = (error: unknown): boolean => !(error instanceof SvcError && ['INVALID_REQUEST', 'CONFLICT'].includes(error.code))

/** A manifest under the names of the wire. */
function answerOf({ version, createdAt, files, bytes, statistics }: BackupManifest): BackupAnswer {
  return { version, created_at: createdAt, ...statistics, file_count: files, total_bytes: bytes }
}
