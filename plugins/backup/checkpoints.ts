/** Checkpoints by the clock: makes them, and clears away what is old or unfinished. Touches nothing whose name is not a checkpoint's. */
import { join } from 'node:path'
import type { BackupDirectories, Clock, Svc } from 'svcdb'
import { checkpointName, checkpointTime, surplus, waitFor } from './checkpoint-names.ts'

interface CheckpointDependencies {
  /** Absolute. */
  directory(): string
  directories(): BackupDirectories
  intervalMs: number
  keep: number
  clock: Clock
  log: Svc['log']
  make(directory: string): Promise<unknown>
}

export class Checkpoints {
  private readonly dependencies: CheckpointDependencies

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
    const { directory, keep, clock, make } = this.dependencies
    // First, for their space.
    for (const name of (await this.list()).unfinished) await this.remove(name)
    const name = checkpointName(clock.now())
    await make(join(directory(), name))
    for (const old of surplus((await this.list()).finished, keep, name)) await this.remove(old)
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
