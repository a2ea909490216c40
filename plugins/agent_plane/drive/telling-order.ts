import { inTurns, type Work } from 'svcdb/lib/event-loop'

/**
 * What a step has asked for is told to its code in the order in which the journal has the ends of it, one after the other: before the next one, all runs that the
 * code can do with this one. So what the code asks next, in whichever of its branches, follows from the journal, and a replay asks in the same order.
 */
interface Told {
  /** Seq of the record that has it; 0 = of what has none. */
  seq: number
  tell(): void
}

export class TellingOrder {
  /** The next one at the end. */
  private readonly waiting: Told[] = []
  private isDue = false
  private reads: Promise<unknown> = Promise.resolve()
  private reading = 0

  /** Calls `tell` when it is its turn. */
  add(seq: number, tell: () => void): void {
    const { waiting } = this
    let at = waiting.length
    while (at > 0 && waiting[at - 1].seq <= seq) at--
    if (at === waiting.length) waiting.push({ seq, tell })
    else waiting.splice(at, 0, { seq, tell })
    this.soon()
  }

  /** Reads what no record has. Nothing else is told until the code has it. */
  async read<T>(act: () => Promise<T>): Promise<T> {
    this.reading++
    const done = this.reads.then(act)
    this.reads = done.catch(() => {})
    try {
      return await done
    } finally {
      await new Promise<void>((tell) => this.add(0, tell))
      this.reading--
      this.soon()
    }
  }

  /**
   * Ticks come when no promise has anything more to do; within one, promises wait for the next tick, too. Nothing else comes between ticks: where they have gone
   * on for long, as over thousands of effects that the journal has, others get their turn of the event loop.
   */
  private soon(): void {
    if (this.isDue) return
    this.isDue = true
    queueMicrotask(() => process.nextTick(() => void inTurns(this.next())))
  }

  // biome-ignore lint/correctness/useYield: each is short, and as a work it waits for its turn
  private *next(): Work<void> {
    this.isDue = false
    const next = this.waiting.at(-1)
    if (next === undefined || (this.reading > 0 && next.seq > 0)) return
    this.waiting.pop()
    next.tell()
    if (this.waiting.length > 0) this.soon()
  }
}
