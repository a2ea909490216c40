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
  /** One could not even be begun. */
  failed(): void
}

const AHEAD =
  'checkpoints have writes that this database does not have: it was begun anew, or restored from an older one. They are kept beside database.checkpoints.keep others: restore one, or remove them'

export class Checkpoints {
  private readonly dependencies: CheckpointDependencies
  /** Names of what was told last to be ahead. */
  private told = ''
  /** Those that could not be removed or looked into: each is logged once. */
  private readonly bad = new Set<string>()

  constructor(dependencies: CheckpointDependencies) {
    this.dependencies = dependencies
  }

  /** Milliseconds until the next is due. @throws what the directory cannot be read for. */
  async due(): Promise<number> {
    const { intervalMs, clock } = this.dependencies
    return waitFor((await this.list()).finished, intervalMs, clock.now())
  }

  /** One checkpoint, and then the clearing away: a failure removes nothing that is finished. What cannot be cleared away is no failure. */
  async run(): Promise<void> {
    const { directory, clock, make, log, failed } = this.dependencies
    const { unfinished } = await this.list().catch((error: Error) => {
      failed()
      throw error
    })
    // First, for their space.
    for (const name of unfinished) await this.remove(name)
    const name = checkpointName(clock.now())
    const { wal_sequence: sequence = Number.POSITIVE_INFINITY } = await make(join(directory(), name))
    // The run would be tried again, with one more checkpoint.
    await this.clear(name, sequence).catch((err: Error) => log.warn({ err }, 'cannot clear away old checkpoints; it is tried again after the next one'))
  }

  /** @param last the one just made. @param sequence of its newest record. */
  private async clear(last: string, sequence: number): Promise<void> {
    const { keep, log } = this.dependencies
    const ahead: string[] = []
    for (const old of surplus((await this.list()).finished, keep, last)) {
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
    for (const { name, problem } of checkpoints) if (problem !== undefined) this.warn(name, problem, 'cannot look into a checkpoint; it stays as it is')
    const known = checkpoints.filter(({ problem }) => problem === undefined)
    const names = (wanted: boolean) => known.filter(({ finished }) => finished === wanted).map(({ name }) => name)
    return { finished: names(true), unfinished: names(false) }
  }

  /** One that cannot be removed costs no other. */
  private async remove(name: string): Promise<void> {
    const { directory, directories, log } = this.dependencies
    try {
      await directories().remove(join(directory(), name))
      this.bad.delete(name)
      log.info({ checkpoint: name }, 'removed a checkpoint')
    } catch (error) {
      this.warn(name, error as Error, 'cannot remove a checkpoint; it is tried again with each further one')
    }
  }

  private warn(name: string, err: Error, message: string): void {
    if (!this.bad.has(name)) this.dependencies.log.warn({ err, checkpoint: name }, message)
    this.bad.add(name)
  }
}
