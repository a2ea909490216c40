/**
 * Takes up the runs of a tenant that are due, in slices: however many there are, a look costs as much as one slice, and no more than two slices wait for their
 * turn. The next slice follows by itself when those before it have got their turn, and not at the next sweep only.
 */
import type { Driver } from './drive/driver.ts'
import type { PlaneService } from './service.ts'
import type { Turns } from './turns.ts'

interface TakeUpDependencies {
  /** Whose runs they are; used when it is running. */
  plane: { agents: Pick<PlaneService, 'isOpen' | 'isTaken' | 'launch' | 'sealer'>; running: { driver: Pick<Driver, 'due' | 'sweep'> } }
  turns: Turns
  /** Runs that one look takes up. */
  slice: number
  /** Called for each. */
  taken(): void
}

export class TakeUp {
  private readonly dependencies: TakeUpDependencies
  /** More is known to be due. */
  private following = false

  constructor(dependencies: TakeUpDependencies) {
    this.dependencies = dependencies
  }

  /** One slice, and what else time has brought about. @throws what the store throws: what was found is taken up all the same. */
  async once(): Promise<void> {
    const { plane, slice, taken } = this.dependencies
    const { agents, running } = plane
    const due = await running.driver.due(slice, (run) => agents.isTaken(run))
    try {
      await running.driver.sweep(due)
    } finally {
      agents.sealer.poke()
      for (const run of due) {
        taken()
        agents.launch(run)
      }
    }
    if (due.length >= slice) this.follow()
  }

  /** More is due than waits here: the next slice follows. */
  follow(): void {
    if (this.following) return
    const { plane, turns, slice } = this.dependencies
    this.following = true
    void turns.below(slice, plane.agents).then(() => this.next())
  }

  private async next(): Promise<void> {
    this.following = false
    // What fails now is seen by the next sweep, which tries again.
    if (this.dependencies.plane.agents.isOpen) await this.once().catch(() => {})
  }
}
