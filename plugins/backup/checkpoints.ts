/** Checkpoints by the clock: makes them, and clears away what is old or unfinished. Touches nothing whose name is not a checkpoint's. */
import { existsSync } from 'node:fs'
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock, Svc } from 'svcdb'
import { checkpointName, checkpointTime, surplus, waitFor } from './checkpoint-names.ts'

const MANIFEST = 'backup_manifest.json'

export interface CheckpointDependencies {
  /** Absolute. */
  directory(): string
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
    const directory = this.dependencies.directory()
    const entries = await readdir(directory, { withFileTypes: true }).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return []
      throw error
    })
    const names = entries.filter((entry) => entry.isDirectory() && checkpointTime(entry.name) !== undefined).map(({ name }) => name)
    const { finished = [], unfinished = [] } = Object.groupBy(names, (name) => (existsSync(join(directory, name, MANIFEST)) ? 'finished' : 'unfinished'))
    return { finished, unfinished }
  }

  private async remove(name: string): Promise<void> {
    const path = join(this.dependencies.directory(), name)
    // Cut short, it is an unfinished one.
    await rm(join(path, MANIFEST), { force: true })
    await rm(path, { recursive: true, force: true })
    this.dependencies.log.info({ checkpoint: name }, 'removed a checkpoint')
  }
}
