/** Backups on request and by the clock: where they may lie, and what is counted. */
import { join, resolve } from 'node:path'
import type { BackupManifest, BackupService, Svc } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import type { CheckpointConfig } from './config.ts'
import { confine } from './confine.ts'
import { type BackupMetrics, backupMetrics } from './metrics.ts'
import type { BackupAnswer } from './schemas.ts'

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
    return this.make(await confine(this.root, targetDir, 'target_dir'))
  }

  async verify(backupDir: string): Promise<BackupAnswer> {
    return answerOf(await this.service.verify(await confine(this.root, backupDir, 'backup_dir')))
  }

  async restore(backupDir: string, targetDir: string): Promise<BackupAnswer> {
    const from = await confine(this.root, backupDir, 'backup_dir')
    const to = await confine(this.root, targetDir, 'target_dir')
    const manifest = await this.service.restore(from, to)
    this.svc.log.info({ backup: from, directory: to, bytes: manifest.bytes }, 'restored a backup')
    return answerOf(manifest)
  }

  /** A scheduled one that cannot be made is a failure whatever the reason; a request that was refused is not. */
  async checkpoint(directory: string): Promise<BackupAnswer> {
    return this.make(directory, () => true)
  }

  get checkpointDirectory(): string {
    const { directory } = this.config
    return directory === undefined ? join(this.root, 'checkpoints') : resolve(directory)
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
    try {
      const manifest = await this.service.create(directory)
      const seconds = (clock.monotonic() - started) / 1000
      this.metrics.made.inc()
      this.metrics.bytes.inc(manifest.bytes)
      this.metrics.seconds.observe(seconds)
      log.info({ directory, bytes: manifest.bytes, ...manifest.statistics, ms: Math.round(seconds * 1000) }, 'made a backup')
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
