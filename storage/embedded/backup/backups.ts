/** The engine's BackupService: which directories may be used, and that no two operations get in each other's way. */
import { resolve } from 'node:path'
import type { BackupManifest, BackupService } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { type Environment, realEnvironment } from '../environment.ts'
import { paths } from '../paths.ts'
import { type BackupSource, createBackup } from './create.ts'
import { Directories } from './directories.ts'
import { type BackupDisk, backupFault, type Check, type Content, realDisk, resolved, within } from './disk.ts'
import { type StoredManifest, summary } from './manifest.ts'
import { restoreBackup } from './restore.ts'
import { verifyBackup } from './verify.ts'

type Kind = 'create' | 'read'

export class Backups implements BackupService {
  readonly root: string
  readonly directories: Directories
  private readonly source: BackupSource
  private readonly disk: BackupDisk
  private readonly random: Environment['random']
  private readonly known = new Map<string, Content>()
  private readonly busy = new Map<Promise<unknown>, { kind: Kind; directory: string }>()
  private closed = false

  constructor(source: BackupSource, disk: BackupDisk = realDisk, random: Environment['random'] = realEnvironment.random) {
    this.random = random
    this.source = source
    this.disk = disk
    this.root = paths(source.dataDir).backups
    this.directories = new Directories(disk.files)
  }

  async create(directory: string): Promise<BackupManifest> {
    const what = `make backup "${directory}"`
    return this.run('create', directory, { what }, async (target, check) => {
      await this.refuseOverlap(target, what)
      return createBackup(this.source, this.disk, target, this.known, check)
    })
  }

  async verify(directory: string): Promise<BackupManifest> {
    return this.run('read', directory, { what: `verify backup "${directory}"` }, (found, check) => verifyBackup(this.disk, found, check))
  }

  async restore(directory: string, target: string): Promise<BackupManifest> {
    const what = `restore backup "${directory}" to "${target}"`
    return this.run('read', directory, { what, target }, async (found, check) => {
      const to = await resolved(resolve(target), this.disk.files)
      await this.refuseOverlap(to, what)
      if (within(found, to)) throw new SvcError('INVALID_REQUEST', `cannot ${what}: the target is inside the backup; name a directory elsewhere`)
      return restoreBackup(this.disk, found, to, check, this.random)
    })
  }

  /** Ends what is under way; its callers learn that the database closes. Resolves when nothing touches the database any more. */
  async close(): Promise<void> {
    this.closed = true
    await Promise.allSettled(this.busy.keys())
  }

  private async run(
    kind: Kind,
    given: string,
    { what, target = given }: { what: string; target?: string },
    work: (directory: string, check: Check) => Promise<StoredManifest>,
  ): Promise<BackupManifest> {
    const check = (): void => {
      if (this.closed) throw new SvcError('DATABASE_CLOSED', `cannot ${what}: the database is closing; retry after the restart`)
    }
    try {
      check()
      const directory = await resolved(resolve(given), this.disk.files)
      for (const other of this.busy.values()) {
        const same = within(other.directory, directory) || within(directory, other.directory)
        if (kind === 'create' && other.kind === 'create')
          throw new SvcError('CONFLICT', `cannot ${what}: another backup is being made; retry when it has ended`)
        if (same && (kind === 'create' || other.kind === 'create'))
          throw new SvcError('CONFLICT', `cannot ${what}: the directory is in use by another backup, verification or restore; retry when it has ended`)
      }
      const running = work(directory, check)
      this.busy.set(running, { kind, directory })
      try {
        return summary(await running)
      } finally {
        this.busy.delete(running)
      }
    } catch (error) {
      throw backupFault(what, target, error)
    }
  }

  /** Nothing may be made in the database's own directories or around them, except below `backups/`. */
  private async refuseOverlap(target: string, what: string): Promise<void> {
    const { backups, ...own } = paths(this.source.dataDir)
    const refused = new SvcError(
      'INVALID_REQUEST',
      `cannot ${what}: the directory overlaps the database's own; choose one outside of its data_dir, or below "${backups}"`,
    )
    const data = await resolved(this.source.dataDir, this.disk.files)
    if (within(target, data)) throw refused
    // Parts of the data directory may be links to other volumes.
    for (const path of Object.values(own)) {
      const part = await resolved(path, this.disk.files)
      if (within(part, target) || within(target, part)) throw refused
    }
    if (within(data, target) && !within(await resolved(backups, this.disk.files), target)) throw refused
  }
}
