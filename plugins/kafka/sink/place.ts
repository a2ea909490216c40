/**
 * How far a sink is, in the state store.
 *
 * Invariants
 * - A place is kept only when brokers have acknowledged all before it.
 * - It never goes back.
 */
import type { ChangePosition, StateStore } from 'svcdb'

/** Behind `position`, and, where `partial` is there, behind so many frames of the change that ends at its position. */
export interface Place {
  position: ChangePosition
  partial?: { position: ChangePosition; frames: number }
}

const keyOf = (sink: string): string => `sinks/${sink}`

export class Places {
  private readonly state: StateStore
  private readonly sink: string
  private kept: Place | undefined

  constructor(state: StateStore, sink: string) {
    this.state = state
    this.sink = sink
  }

  async read(): Promise<Place | undefined> {
    this.kept = await this.state.get<Place>(keyOf(this.sink))
    return this.kept
  }

  /** @throws what the state store throws. */
  async keep(place: Place): Promise<void> {
    if (this.kept !== undefined && samePlace(this.kept, place)) return
    await this.state.transaction((tx) => tx.put(keyOf(this.sink), place))
    this.kept = place
  }
}

function samePlace(a: Place, b: Place): boolean {
  return a.position === b.position && a.partial?.position === b.partial?.position && a.partial?.frames === b.partial?.frames
}
