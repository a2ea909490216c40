/** The engine's BackupService: which directories may be used, and that no two operations get in each other's way. */
import { dirname, resolve } from 'node:path'
import type { BackupManifest, BackupService } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { type Environment, realEnvironment } from '../environment.ts'
import { paths } from '../paths.ts'
import { type BackupSource, createBackup } from './create.ts'
import { Directories } from './directories.ts'
import { type BackupDisk, backupFault, type Check, type Content, realDisk, resolved, within } from './disk.ts'
import { summary } from './manifest.ts'
import { restoreBackup } from './restore.ts'
import { verifyBackup } from './verify.ts'

/** What an operation does with directories: of two in one directory, or one within the other, none may write. */
interface Use {
  /** Of these there is one at a time. */
  creates?: true
  reads?: string
  writes?: string
}

export class Backups implements BackupService {
  readonly root: string
  readonly directories: Directories
  private readonly source: BackupSource
  private readonly disk: BackupDisk
  private readonly random: Environment['random']
  private readonly known = new Map<string, Content>()
  private readonly busy = new Map<Promise<unknown>, Use>()
  private closed = false

  constructor(source: BackupSource, disk: BackupDisk = realDisk, random: Environment['random'] = realEnvironment.random) {
    this.random = random
    this.source = source
    this.disk = disk
    this.root = paths(source.dataDir).backups
    this.directories = new Directories(disk.files, (directory, work) => this.run({ writes: directory }, `remove backup "${directory}"`, directory, work))
  }

  async create(directory: string): Promise<BackupManifest> {
    const what = `make backup "${directory}"`
    return this.run({ creates: true, writes: directory }, what, directory, async ({ writes }, check) => {
      await this.refuseOverlap(writes, what)
      return summary(await createBackup(this.source, this.disk, writes, this.known, check))
    })
  }

  async verify(directory: string): Promise<BackupManifest> {
    return this.run({ reads: directory }, `verify backup "${directory}"`, directory, async ({ reads }, check) =>
      summary(await verifyBackup(this.disk, reads, check)),
    )
  }

  async restore(directory: string, target: string): Promise<BackupManifest> {
    const what = `restore backup "${directory}" to "${target}"`
    return this.run({ reads: directory, writes: target }, what, target, async ({ reads, writes }, check) => {
      await this.refuseOverlap(writes, what)
      return summary(await restoreBackup(this.disk, reads, writes, check, this.random))
    })
  }

  /** Ends what is under way; its callers learn that the database closes. Resolves when nothing touches the database any more. */
  async close(): Promise<void> {
    this.closed = true
    await Promise.allSettled(this.busy.keys())
  }

  /** @param where what messages name when the disk is full. @param work gets the use with its directories resolved. */
  private async run<U extends Use, R>(use: U, what: string, where: string, work: (found: U, check: Check) => Promise<R>): Promise<R> {
    const check = (): void => {
      if (this.closed) throw new SvcError('DATABASE_CLOSED', `cannot ${what}: the database is closing; retry after the restart`)
    }
    try {
      check()
      const found = { ...use }
      for (const way of ['reads', 'writes'] as const) if (use[way] !== undefined) found[way] = await resolved(resolve(use[way]), this.disk.files)
      for (const other of this.busy.values()) {
        if (use.creates && other.creates) throw new SvcError('CONFLICT', `cannot ${what}: another backup is being made; retry when it has ended`)
        if (meet(found.writes, other.writes) || meet(found.writes, other.reads) || meet(found.reads, other.writes))
          throw new SvcError('CONFLICT', `cannot ${what}: the directory is in use by another backup, verification or restore; retry when it has ended`)
      }
      const running = work(found, check)
      this.busy.set(running, found)
      try {
        return await running
      } finally {
        this.busy.delete(running)
      }
    } catch (error) {
      throw backupFault(what, where, error)
    }
  }

  /** Nothing may be made in the database's own directories or around them, except below `backups/`, and nothing in another backup. */
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
    for (let at = dirname(target); at !== dirname(at); at = dirname(at))
      // What cannot be looked into is not known to be one.
      if (await this.directories.isFinished(at).catch(() => false))
        throw new SvcError('INVALID_REQUEST', `cannot ${what}: the directory is inside the backup "${at}"; choose one elsewhere`)
  }
}

/** Whether they are the same directory, or one lies in the other. */
function meet(one: string | undefined, other: string | undefined): boolean {
  return one !== undefined && other !== undefined && (within(one, other) || within(other, one))
}
