/** Changes in a plain list, as long as it may be: the newest `capacity` rows and other changes; what is older is a gap. */
import { randomBytes } from 'node:crypto'
import type { Change, ChangeCursor, ChangePosition, ChangeRequest, FieldInfo, MeasurementFilter, RowsChanged } from 'svcdb'
import { ByteHeap, Column } from 'svcdb/lib/columns'
import { type Place, placeOf, positionOf, reaches, WHOLE, wanted } from '../common/change-places.ts'
import { highHalf, lowHalf } from '../common/time.ts'
import type { IncomingRow, Value } from './rows.ts'
import type { Measurement } from './series.ts'

type Told = Exclude<Change, { kind: 'gap' }>
type Untold<T> = T extends Told ? Omit<T, 'position' | 'sequence'> : never
interface Entry {
  place: Place
  change: Told
}

export class MemoryChanges {
  private readonly history = randomBytes(8).toString('hex')
  private readonly capacity: number
  private entries: Entry[] = []
  /** Rows and other changes in `entries`. */
  private size = 0
  /** The newest place that is in the list no more. */
  private lost: Place = { sequence: 0, part: WHOLE }
  private sequence = 0
  private readonly cursors = new Set<MemoryCursor>()

  constructor(capacity: number) {
    this.capacity = capacity
  }

  written(namespace: string, rows: readonly IncomingRow[], backfill: boolean): void {
    const byMeasurement = Map.groupBy(rows, ({ series }) => series.measurement)
    const ordered = [...byMeasurement].sort(([a], [b]) => a.id - b.id)
    this.add(ordered.map(([measurement, rows]) => ({ kind: 'rows', namespace, measurement: measurement.name, backfill, ...columnsOf(measurement, rows) })))
  }

  add(changes: readonly Untold<Told>[]): void {
    const sequence = ++this.sequence
    for (const [i, change] of changes.entries()) {
      const place = { sequence, part: i === changes.length - 1 ? WHOLE : i }
      this.entries.push({ place, change: { ...change, sequence, position: positionOf(this.history, place) } as Told })
      this.size += weight(change)
    }
    while (this.size > this.capacity && this.entries.length > 1) {
      const { place, change } = this.entries.shift() as Entry
      this.size -= weight(change)
      this.lost = place
    }
    for (const cursor of this.cursors) cursor.wake()
  }

  open(request: ChangeRequest): ChangeCursor {
    const cursor = new MemoryCursor(this, request, () => this.cursors.delete(cursor))
    if (request.signal?.aborted !== true) this.cursors.add(cursor)
    return cursor
  }

  /** What was in a namespace that is gone is told no more. */
  forget(namespace: string): void {
    this.entries = this.entries.filter(({ change }) => change.namespace !== namespace)
    this.size = this.entries.reduce((sum, { change }) => sum + weight(change), 0)
  }

  close(): void {
    for (const cursor of [...this.cursors]) cursor.close()
  }

  /** @returns where a cursor begins, or the gap that it begins with. */
  begin(after: ChangePosition | undefined): Place | Change {
    const end = { sequence: this.sequence, part: WHOLE }
    if (after === undefined) return end
    const { history, ...place } = placeOf(after)
    if (history !== this.history || !reaches(end, place)) return this.gap(after, 'other_history')
    return place
  }

  /** The first change behind a place, or a gap. */
  next(place: Place): Told | Extract<Change, { kind: 'gap' }> | undefined {
    if (!reaches(place, this.lost)) return this.gap(positionOf(this.history, place), 'expired')
    let [low, high] = [0, this.entries.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (reaches(place, this.entries[middle].place)) low = middle + 1
      else high = middle
    }
    return this.entries[low]?.change
  }

  position(place: Place): ChangePosition {
    return positionOf(this.history, place)
  }

  get newest(): number {
    return this.sequence
  }

  private gap(from: ChangePosition, cause: 'expired' | 'other_history'): Extract<Change, { kind: 'gap' }> {
    const to = positionOf(this.history, this.lost)
    return { kind: 'gap', from, to, position: to, sequence: this.lost.sequence, cause }
  }
}

class MemoryCursor implements ChangeCursor {
  private place: Place = { sequence: 0, part: WHOLE }
  private first: Change | undefined
  private closed = false
  private waiting: (() => void) | undefined
  private isWanted: (measurement: string, namespace: string) => boolean
  private readonly all: MemoryChanges
  private readonly request: ChangeRequest
  private readonly ended: () => void

  constructor(all: MemoryChanges, request: ChangeRequest, ended: () => void) {
    this.all = all
    this.request = request
    this.ended = ended
    this.isWanted = wanted(request.measurements)
    const begun = all.begin(request.after)
    if ('part' in begun) this.place = begun
    else this.first = begun
    this.closed = request.signal?.aborted === true
    request.signal?.addEventListener('abort', this.close, { once: true })
  }

  get behind(): number {
    return this.all.newest - this.place.sequence
  }

  async position(): Promise<ChangePosition> {
    return this.first?.kind === 'gap' ? this.first.from : this.all.position(this.place)
  }

  select(measurements: MeasurementFilter | undefined): void {
    this.isWanted = wanted(measurements)
  }

  async next(): Promise<IteratorResult<Change, undefined>> {
    while (!this.closed) {
      const change = this.first ?? this.all.next(this.place)
      this.first = undefined
      if (change === undefined) {
        await new Promise<void>((resolve) => {
          this.waiting = resolve
        })
        continue
      }
      const { sequence, part } = placeOf(change.position)
      this.place = { sequence, part }
      if (this.wants(change)) return { done: false, value: change }
    }
    return { done: true, value: undefined }
  }

  wake(): void {
    this.waiting?.()
    this.waiting = undefined
  }

  readonly close = (): void => {
    this.closed = true
    this.request.signal?.removeEventListener('abort', this.close)
    this.ended()
    this.wake()
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Change> {
    try {
      for (let next = await this.next(); !next.done; next = await this.next()) yield next.value
    } finally {
      this.close()
    }
  }

  private wants(change: Change): boolean {
    if (change.kind === 'gap') return true
    const { namespace, kinds } = this.request
    if (namespace !== undefined && change.namespace !== namespace) return false
    return (kinds === undefined || kinds.includes(change.kind)) && this.isWanted(change.measurement, change.namespace)
  }
}

const weight = (change: Untold<Told>): number => (change.kind === 'rows' ? change.rows : 1)

function columnsOf(
  measurement: Measurement,
  incoming: readonly IncomingRow[],
): Pick<RowsChanged, 'rows' | 'times' | 'series' | 'fields' | 'columns' | 'heap' | 'tagsOf'> {
  const rows = incoming.length
  const times = new Int32Array(rows * 2)
  const heap = new ByteHeap()
  const columns = new Map<string, Column>()
  const tags = new Map<number, Record<string, string>>()
  for (const [row, { series, timeLow, timeHigh, fields }] of incoming.entries()) {
    times[row * 2] = timeLow
    times[row * 2 + 1] = timeHigh
    tags.set(series.number, series.tags)
    for (const { name, type, value } of fields) {
      const column = columns.get(name) ?? new Column(name, type, rows)
      columns.set(name, column)
      setValue(column, row, value, heap, measurement.fields.get(name)?.scale ?? 0)
    }
  }
  return {
    rows,
    times,
    series: Int32Array.from(incoming, ({ series }) => series.number),
    fields: [...columns.keys()].map((name) => ({ ...(measurement.fields.get(name) as FieldInfo) })),
    columns: [...columns.values()],
    heap: heap.bytes,
    tagsOf: (series) => ({ ...tags.get(series) }),
  }
}

function setValue(column: Column, row: number, value: Value, heap: ByteHeap, scale: number): void {
  if (typeof value === 'boolean') column.setBool(row, value)
  else if (typeof value === 'number') column.setF64(row, value)
  else if (typeof value === 'bigint' && column.type === 'decimal') column.setDecimal(row, value, scale)
  else if (typeof value === 'bigint') {
    column.setPair(row, lowHalf(value), highHalf(value))
    if (column.type === 'float64') column.nonFinite = true
  } else {
    const bytes = typeof value === 'string' ? Buffer.from(value) : value
    const at = heap.reserve(bytes.length)
    heap.bytes.set(bytes, at)
    column.setPair(row, at, bytes.length)
  }
}
