/**
 * How far a sink is, in the state store.
 *
 * Invariants
 * - A position is kept only when brokers have acknowledged all before it.
 * - It never goes back.
 */
import type { ChangePosition, StateStore } from 'svcdb'

/** Behind `position`, and, where `partial` is there, behind so many frames of the change that ends at its position. */
export interface SinkPosition {
  position: ChangePosition
  partial?: { position: ChangePosition; frames: number }
}

/** Of a sink on the database whose changes have this history (docs/decisions/060-the-change-cursor.md): others may have a sink of that name in the same state. */
const keyOf = (sink: string, history: string): string => `sinks/${sink}/${history}`
/** As it was before. */
const formerKeyOf = (sink: string): string => `sinks/${sink}`

export const historyOf = (position: ChangePosition): string => position.split('-', 1)[0]

export class SinkPositions {
  private readonly state: StateStore
  private readonly sink: string
  private readonly history: string
  private readonly shared: boolean
  private kept: SinkPosition | undefined
  /** Other keys with positions of this sink, which go with the next that is kept. */
  private former: string[] = []

  /** @param history of the changes. @param shared the state is that of other databases too. */
  constructor(state: StateStore, sink: string, { history, shared }: { history: string; shared: boolean }) {
    this.state = state
    this.sink = sink
    this.history = history
    this.shared = shared
  }

  /** Of another history where the database was restored: what the cursor makes of it is a gap. */
  async read(): Promise<SinkPosition | undefined> {
    this.kept = await this.state.get<SinkPosition>(keyOf(this.sink, this.history))
    if (this.kept !== undefined) return this.kept
    const former = formerKeyOf(this.sink)
    const one = await this.state.get<SinkPosition>(former)
    const known = one === undefined ? [] : [{ key: former, value: one }]
    if (!this.shared) known.push(...(await this.state.list<SinkPosition>({ prefix: `${former}/` })))
    const own = known.filter(({ value }) => !this.shared || historyOf(value.position) === this.history)
    this.former = own.map(({ key }) => key)
    return known.at(-1)?.value
  }

  /** @throws what the state store throws. */
  async keep(position: SinkPosition): Promise<void> {
    if (this.kept !== undefined && samePosition(this.kept, position)) return
    const { former } = this
    await this.state.transaction((tx) => {
      tx.put(keyOf(this.sink, this.history), position)
      for (const key of former) tx.delete(key)
    })
    this.former = []
    this.kept = position
  }
}

function samePosition(a: SinkPosition, b: SinkPosition): boolean {
  return a.position === b.position && a.partial?.position === b.partial?.position && a.partial?.frames === b.partial?.frames
}
