/**
 * A reader of changes that lives longer than the process: it comes and goes, goes on from the position that it keeps, and over all lives must be given each row
 * that is durable once, in order, or that it was missed.
 */
import type { Change, ChangeCursor, RowsChanged } from 'svcdb'
import { changedRows } from 'svcdb'
import type { Life } from './life.ts'
import { keyOf, type Operation, type Point } from './model.ts'
import type { Random } from './random.ts'

interface Written {
  operation: Operation
  point: Point
  delivered: boolean
  /** It need not be delivered: it lay in a gap, or is of what was dropped, deleted or taken by retention, which the log need not name any more. */
  excused: boolean
}

/** For an error that a fault has caused. */
const RETRY_MS = 50

export class Follower {
  /** What was delivered, and times that something was missed. */
  readonly counts = { rows: 0, gaps: 0, readings: 0 }
  private readonly random: Random
  private readonly violation: (problem: string, cause?: unknown) => void
  private readonly written = new Map<string, Written[]>()
  /** Keys of what was delivered and is settled. */
  private readonly forgotten = new Set<string>()
  private anew = false
  private position: string | undefined
  /** Number of the first operation that is to be delivered; undefined until it follows. */
  private since: number | undefined
  private newest = 0
  private cursor: ChangeCursor | undefined
  private waiting: { operation: Operation; done(): void } | undefined

  constructor(random: Random, violation: (problem: string, cause?: unknown) => void) {
    this.random = random
    this.violation = violation
  }

  /** An operation begins. */
  begin(operation: Operation): void {
    const { change } = operation
    this.newest = operation.number
    if (change.kind === 'write')
      for (const point of change.points) this.add(keyOfPoint(change.namespace, point), { operation, point, delivered: false, excused: false })
    else if (change.kind !== 'restore')
      for (const entry of this.entries())
        if (entry.point.measurement === change.measurement && (entry.operation.change as { namespace: string }).namespace === change.namespace)
          entry.excused = true
  }

  /** What retention may have taken, and with it the names of series, need not be delivered. */
  retain(cutoff: (measurement: string) => bigint): void {
    for (const entry of this.entries()) if (entry.point.time < cutoff(entry.point.measurement)) entry.excused = true
  }

  /** Comes and goes until the life is over or `stop` is called. Never rejects. */
  async follow(life: Life, stopped: () => boolean, pause: (ms: number) => Promise<void>): Promise<void> {
    while (!life.over && !stopped()) {
      try {
        if (this.position === undefined) this.since = this.newest + 1
        const cursor = life.engine.changes(this.position === undefined ? {} : { after: this.position })
        this.cursor = cursor
        life.world.scheduler.trace?.(`  FOLLOWS after ${this.position ?? 'now'}, from operation ${this.since} on`)
        this.counts.readings++
        // The first place is where it begins; without it, what comes before the first change would be missed by the next reading.
        this.position ??= await cursor.position()
        for (let left = this.waiting === undefined ? this.random.logarithmic(1, 200) : Number.POSITIVE_INFINITY; left > 0 && !life.over; left--) {
          const { value, done } = await cursor.next()
          if (life.over || done) break
          this.take(value, life)
        }
        cursor.close()
      } catch (error) {
        if (life.over) return
        if (life.machine.faults === 0) this.violation('a reader of changes failed without a fault', error)
      }
      if (life.over) return
      await pause(this.waiting === undefined && this.random.chance(0.5) ? this.random.next() * 3000 : RETRY_MS)
    }
    this.cursor?.close()
  }

  stop(): void {
    this.cursor?.close()
  }

  /** Resolves when the write, which is acknowledged and of one point, is delivered, or missed and said so. */
  deliveryOf(operation: Operation): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const { change } = operation
    const entries = change.kind === 'write' ? (this.written.get(keyOfPoint(change.namespace, change.points[0])) ?? []) : []
    // The same point may have been sent before, by a write of which nobody knows.
    const entry = entries.find((written) => written.operation === operation)
    if (entry === undefined || entry.delivered || entry.excused) resolve()
    else this.waiting = { operation, done: resolve }
    return promise
  }

  /** Writes that are certain, but for a power cut. */
  acknowledged(): Set<Operation> {
    return new Set([...this.entries()].flatMap(({ operation }) => (operation.outcome === 'acknowledged' ? [operation] : [])))
  }

  /** What is wrong after the write was delivered: all that was acknowledged before it began must have been. */
  missing(before: Operation, acknowledged: ReadonlySet<Operation>): string | undefined {
    const { since = Number.POSITIVE_INFINITY } = this
    for (const { operation, point, delivered, excused } of this.entries()) {
      if (delivered || excused || operation.number < since || operation.number >= before.number || !acknowledged.has(operation)) continue
      if (operation.change.kind !== 'write' || !operation.change.points.includes(point)) continue
      return `operation ${operation.number} is acknowledged, and a reader of changes was given ${before.number} and not its ${keyOfPoint(operation.change.namespace, point)}`
    }
    return undefined
  }

  /** What is settled is forgotten. */
  settle(): void {
    for (const [key, entries] of this.written) {
      if (!entries.every(({ delivered }) => delivered)) continue
      this.written.delete(key)
      this.forgotten.add(key)
    }
  }

  private take(change: Change, life: Life): void {
    const { position = '' } = this
    life.world.scheduler.trace?.(`  DELIVERED ${change.kind} ${change.position}`)
    // A database that could not be given its id in one life has another in the next.
    const anew = change.kind === 'gap' && change.cause === 'other_history'
    if (change.position <= position && !anew) return this.violation(`a reader at ${position} was given ${change.kind} at ${change.position}`)
    this.position = change.position
    if (change.kind === 'gap') {
      this.counts.gaps++
      // Records of which a reader is given nothing may lie between.
      if (change.from < position && !anew) this.violation(`a reader at ${position} was given a gap from ${change.from}`)
      for (const entry of this.entries()) {
        entry.excused = true
        if (anew) entry.delivered = false
      }
      this.anew ||= anew
      this.waiting?.done()
      this.waiting = undefined
    } else if (change.kind === 'rows') this.rows(change, life)
  }

  private rows(change: RowsChanged, life: Life): void {
    for (const { measurement, tags, time, fields } of changedRows(change)) {
      this.counts.rows++
      const text = Object.entries(tags)
        .map(([key, value]) => `${key}=${value}`)
        .sort()
        .join(',')
      const key = keyOfPoint(change.namespace, {
        measurement,
        tags: text,
        time,
        fields: fields.map(({ name, type, value }) => ({ name, type, value: value as never })),
      })
      const entries = this.written.get(key) ?? []
      // The same point may have been sent again, when it was refused or nobody knows: what is delivered is one that is there.
      const left = entries.filter((entry) => !entry.delivered && (!isRefused(entry) || entries.length === 1))
      const entry = left.find(({ operation }) => operation.outcome === 'acknowledged') ?? left[0]
      // To a reader of another history all that the log has is delivered again.
      if (entry === undefined && this.anew && (entries.length > 0 || this.forgotten.has(key))) continue
      if (entry === undefined)
        return this.violation(`a reader was given ${key}, which ${entries.length === 0 ? 'nobody has written' : 'it was delivered before'}`)
      entry.delivered = true
      const { operation } = entry
      if (isRefused(entry)) return this.violation(`a reader was given ${key} of operation ${operation.number}, which was refused, or this point of it`)
      if (left.length === 1) life.world.history.delivered(operation)
      if (this.waiting?.operation !== operation) continue
      this.waiting.done()
      this.waiting = undefined
    }
  }

  private *entries(): Generator<Written> {
    for (const entries of this.written.values()) yield* entries
  }

  private add(key: string, entry: Written): void {
    const known = this.written.get(key)
    if (known === undefined) this.written.set(key, [entry])
    else known.push(entry)
  }
}

/** The whole write was, or the point. */
function isRefused({ operation: { outcome, change }, point }: Written): boolean {
  return outcome === 'refused' || (change.kind === 'write' && !change.points.includes(point))
}

function keyOfPoint(namespace: string, { measurement, tags, time, fields }: Point): string {
  const values = fields.map(({ name, value }) => `${name}=${value}`).sort()
  return `${keyOf(namespace, measurement)} ${tags} ${time} ${values.join(' ')}`
}
