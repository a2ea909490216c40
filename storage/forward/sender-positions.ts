/** Where the senders of a queue are, and what they have passed over to come back to. */

/** Where a sender goes on: behind the record before. */
export interface QueuePosition {
  file: number
  offset: number
  /** Of the next record. */
  sequence: number
  /** Before it. */
  points: number
}

/** What waits, or is gone. */
export interface RecordCount {
  records: number
  points: number
}

interface SenderPosition {
  at: QueuePosition
  /** The first position that it comes back to. */
  from: QueuePosition | undefined
  /** By file: what was passed over and has not been come back to. */
  passed: Map<number, RecordCount>
}

export class SenderPositions {
  private readonly senders = new Map<string, SenderPosition>()

  attach(name: string, at: QueuePosition): void {
    this.senders.set(name, { at, from: undefined, passed: new Map() })
  }

  advance(name: string, at: QueuePosition): void {
    this.of(name).at = at
  }

  /** Counts records of a file that a sender has passed over; negative for those that it has come back to. */
  pass(name: string, file: number, { records, points }: RecordCount): void {
    if (records === 0) return
    const { passed } = this.of(name)
    const known = passed.get(file) ?? { records: 0, points: 0 }
    passed.set(file, { records: Math.max(0, known.records + records), points: Math.max(0, known.points + points) })
  }

  /** @param from undefined when the sender comes back to nothing. */
  comeBackTo(name: string, from: QueuePosition | undefined): void {
    const sender = this.of(name)
    sender.from = from
    for (const file of sender.passed.keys()) if (from === undefined || file < from.file) sender.passed.delete(file)
  }

  at(name: string): QueuePosition {
    return this.of(name).at
  }

  passed(name: string): ReadonlyMap<number, RecordCount> {
    return this.of(name).passed
  }

  /** What a sender has before it, and what it has passed over. */
  waiting(name: string, end: QueuePosition): RecordCount {
    const { at, passed } = this.of(name)
    let { records, points } = between(at, end)
    for (const one of passed.values()) {
      records += one.records
      points += one.points
    }
    return { records, points }
  }

  /** What the slowest sender has before it. */
  waitingAtMost(end: QueuePosition): RecordCount {
    return most([...this.senders.keys()].map((name) => this.waiting(name, end)))
  }

  /** What of a file that goes the senders do not have: counted is what the slowest loses. @param first the begin of the file, @param end that of the next. */
  lostWith(file: number, first: QueuePosition, end: QueuePosition): RecordCount {
    if (this.senders.size === 0) return between(first, end)
    return most(
      [...this.senders.values()].map(({ at, passed }) => {
        const { records, points } = passed.get(file) ?? { records: 0, points: 0 }
        const ahead = between({ ...at, sequence: Math.max(at.sequence, first.sequence), points: Math.max(at.points, first.points) }, end)
        return { records: records + ahead.records, points: points + ahead.points }
      }),
    )
  }

  /** A file is gone, and all before it: who was there goes on behind it. */
  moveBehind(file: number, behind: QueuePosition): void {
    for (const sender of this.senders.values()) {
      if (sender.at.file <= file) sender.at = { ...behind }
      if (sender.from !== undefined && sender.from.file <= file) sender.from = { ...behind }
      sender.passed.delete(file)
    }
  }

  /** All positions that are to be read from. */
  *all(): Iterable<QueuePosition> {
    for (const { at, from } of this.senders.values()) {
      yield at
      if (from !== undefined) yield from
    }
  }

  private of(name: string): SenderPosition {
    const sender = this.senders.get(name)
    if (sender === undefined) throw new Error(`no sender "${name}" is attached`)
    return sender
  }
}

export const between = (from: Pick<QueuePosition, 'sequence' | 'points'>, to: Pick<QueuePosition, 'sequence' | 'points'>): RecordCount => ({
  records: Math.max(0, to.sequence - from.sequence),
  points: Math.max(0, to.points - from.points),
})

const most = (counts: readonly RecordCount[]): RecordCount => ({
  records: Math.max(0, ...counts.map(({ records }) => records)),
  points: Math.max(0, ...counts.map(({ points }) => points)),
})
