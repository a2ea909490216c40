/** Checkpoints by the clock: makes them, and clears away what is old or unfinished. Touches nothing whose name is not a checkpoint's. */
import { join } from 'node:path'
import type { BackupDirectories, Clock, Svc } from 'svcdb'
import { checkpointName, checkpointTime, surplus, waitFor } from './checkpoint-names.ts'
import type { BackupAnswer } from './schemas.ts'

interface CheckpointDependencies {
  /** Absolute. */
  directory(): string
  directories(): BackupDirectories
  intervalMs: number
  keep: number
  clock: Clock
  log: Svc['log']
  make(directory: string): Promise<BackupAnswer>
}

const AHEAD =
  'checkpoints have writes that this database does not have: it was begun anew, or restored from an older one. They are kept beside database.checkpoints.keep others: restore one, or remove them'

export class Checkpoints {
  private readonly dependencies: CheckpointDependencies
  /** Names of what was told last to be ahead. */
  private told = ''

  constructor(dependencies: CheckpointDependencies) {
    this.dependencies = dependencies
  }

  /** Milliseconds until the next is due. @throws what the directory cannot be read for. */
  async due(): Promise<number> {
    const { intervalMs, clock } = this.dependencies
    return waitFor((await this.list()).finished, intervalMs, clock.now())
  }

  /** One checkpoint, and then the clearing away: a failure removes nothing that is finished. */
  async run(): Promise<void> {
    const { directory, keep, clock, make, log } = this.dependencies
    // First, for their space.
    for (const name of (await this.list()).unfinished) await this.remove(name)
    const name = checkpointName(clock.now())
    const { wal_sequence: sequence = Number.POSITIVE_INFINITY } = await make(join(directory(), name))
    const ahead: string[] = []
    for (const old of surplus((await this.list()).finished, keep, name)) {
      // Where the volume of the data was lost, these are all that there is.
      if (sequence < (await this.sequenceOf(old))) ahead.push(old)
      else await this.remove(old)
    }
    if (ahead.length > 0 && ahead.join() !== this.told) log.warn({ checkpoints: ahead }, AHEAD)
    this.told = ahead.join()
  }

  /** Of the newest record that a checkpoint has: it rises with each write, from start to start. */
  private async sequenceOf(name: string): Promise<number> {
    const { directory, directories } = this.dependencies
    // What cannot be read is no use: it goes like others.
    const manifest = await directories()
      .manifest?.(join(directory(), name))
      .catch(() => undefined)
    return manifest?.statistics.wal_sequence ?? 0
  }

  private async list(): Promise<{ finished: string[]; unfinished: string[] }> {
    const { directory, directories } = this.dependencies
    const checkpoints = (await directories().list(directory())).filter(({ name }) => checkpointTime(name) !== undefined)
    const names = (wanted: boolean) => checkpoints.filter(({ finished }) => finished === wanted).map(({ name }) => name)
    return { finished: names(true), unfinished: names(false) }
  }

  private async remove(name: string): Promise<void> {
    const { directory, directories, log } = this.dependencies
    await directories().remove(join(directory(), name))
    log.info({ checkpoint: name }, 'removed a checkpoint')
  }
}
