/**
 * From rows to buckets, for several rollups of one source at once: groups series by tags, cuts their rows into buckets, and gives the targets' rows as columns. Pure.
 *
 * What rollups have in common is done once. Those of one bucketing share a grid: its runs of rows are summed up once (run.ts). Those that keep the same tags as well
 * share slots. A bucket comes to the same, bit for bit, whoever shares the scan: its runs are those of its own bucketing.
 */
import type { ColumnChunk, FieldInfo, FieldType, SeriesChunk } from 'svcdb'
import { type Aggregation, type TargetColumn, targetColumns } from './aggregations.ts'
import { bytesOf, Cells, type Value } from './cells.ts'
import { Run } from './run.ts'

/** What one rollup asks for. */
export interface AggregateRequest {
  /** Starts of its buckets, ascending, and the end of the last. */
  boundaries: BigInt64Array
  /** Equal for those whose buckets begin at the same times. */
  bucketing: string
  aggregations: readonly Aggregation[]
  /** Tags that are kept; undefined = all. */
  groupBy: readonly string[] | undefined
}

interface AggregatedColumn {
  name: string
  type: FieldType
  scale?: number
  /** Doubles, and counts, come as an array of doubles, NaN where there is none; see `rowValue`. */
  values: Float64Array | (Value | undefined)[]
}

/** Rows of the target. */
export interface Aggregated {
  /** Source rows that were looked at. */
  sourceRows: number
  /** Tags of each group. */
  groups: Record<string, string>[]
  /** For each row its group and the start of its bucket. */
  group: Int32Array
  times: BigInt64Array
  columns: AggregatedColumn[]
}

/** The value of a row as its type has it; undefined where there is none. */
export function rowValue({ type, values }: AggregatedColumn, row: number): Value | undefined {
  const value = values[row]
  if (typeof value !== 'number') return value
  return Number.isNaN(value) ? undefined : type === 'float64' ? value : BigInt(value)
}

/** Bytes of a text that are as much work as a number. */
const TEXT_BYTES = 32

/** How many values a row may have, texts counted by their length: what it takes to write it. */
export function rowWeight({ columns }: Pick<Aggregated, 'columns'>, row: number): number {
  let bytes = 0
  for (const { values } of columns) if (!(values instanceof Float64Array)) bytes += bytesOf(values[row])
  return columns.length + bytes / TEXT_BYTES
}

/** As `rowWeight`, of all rows: what it takes to hand them over to another thread. Doubles cost next to nothing. */
export function handoverWeight({ columns, group: { length } }: Aggregated): number {
  let weight = 0
  for (const { values } of columns) {
    if (values instanceof Float64Array) continue
    weight += length
    for (let row = 0; row < length; row++) weight += bytesOf(values[row]) / TEXT_BYTES
  }
  return weight
}

/** More than may be held at once: ask for fewer buckets, or fewer rollups. */
export class TooMuchError extends Error {}

/** About what a slot takes in each field. */
const SLOT_BYTES = 64

export class Aggregator {
  private readonly infos: readonly FieldInfo[]
  private readonly requests: readonly AggregateRequest[]
  private readonly maxBytes: number
  private readonly groupings = new Map<string, Grouping>()
  private readonly grids = new Map<string, Grid>()
  /** The slots of each request. */
  private readonly slots: Slots[]
  private series = -1

  /** @param maxBytes what may be held. */
  constructor(fields: readonly FieldInfo[], requests: readonly AggregateRequest[], maxBytes: number) {
    this.infos = fields
    this.requests = requests
    this.maxBytes = maxBytes
    this.slots = requests.map((request) => {
      const { bucketing, groupBy } = request
      const key = groupBy === undefined ? '*' : JSON.stringify([...groupBy].sort())
      const grid = this.grids.get(bucketing) ?? new Grid()
      const grouping = this.groupings.get(key) ?? new Grouping(groupBy)
      this.grids.set(bucketing, grid)
      this.groupings.set(key, grouping)
      return grid.join(request, key, grouping)
    })
    for (const grid of this.grids.values()) grid.open(fields)
  }

  /** The fields to be read. */
  get fields(): string[] {
    return this.infos.filter((field) => [...this.grids.values()].some((grid) => grid.reads(field))).map(({ name }) => name)
  }

  /** Chunks of a series come one after the other, in ascending time; rows outside of all buckets are passed over. @throws TooMuchError */
  add(chunk: SeriesChunk): void {
    if (chunk.times.length === 0) return
    if (chunk.series !== this.series) {
      this.series = chunk.series
      for (const grouping of this.groupings.values()) grouping.open(chunk.tags)
    }
    for (const grid of this.grids.values()) grid.add(chunk)
    this.requireRoom()
  }

  /** @param at of the request. */
  result(at: number): Aggregated {
    return this.slots[at].result(this.requests[at], this.infos)
  }

  private requireRoom(): void {
    if (this.bytes > this.maxBytes) throw new TooMuchError('too much')
  }

  /** What is held. */
  get bytes(): number {
    let bytes = 0
    for (const grid of this.grids.values()) bytes += grid.bytes
    return bytes
  }
}

/** Which group a series belongs to, by the tags that are kept. */
class Grouping {
  readonly all: boolean
  readonly groups: Record<string, string>[] = []
  /** Of the series at hand. */
  group = -1
  /** Orders values of one time that series of a group have. */
  tie = ''
  private readonly tags: readonly string[] | undefined
  private readonly numbers = new Map<string, number>()

  constructor(tags: readonly string[] | undefined) {
    this.tags = tags
    this.all = tags === undefined
  }

  open(tags: Record<string, string>): void {
    // No two series have all tags in common.
    if (this.tags === undefined) {
      this.group = this.groups.push(tags) - 1
      return
    }
    const kept = pick(tags, this.tags)
    const key = tagsKey(kept)
    this.tie = tagsKey(tags)
    let number = this.numbers.get(key)
    if (number === undefined) {
      number = this.groups.push(kept) - 1
      this.numbers.set(key, number)
    }
    this.group = number
  }
}

/** Buckets of one bucketing. */
class Grid {
  private boundaries = new BigInt64Array(0)
  private readonly requests: AggregateRequest[] = []
  private readonly slots = new Map<string, Slots>()
  private list: Slots[] = []
  private readonly runs = new Map<string, Run>()
  /** Buckets that somebody has asked for: requests may have a gap between them. */
  private wanted = new Uint8Array(0)

  join(request: AggregateRequest, key: string, grouping: Grouping): Slots {
    this.requests.push(request)
    const slots = this.slots.get(key) ?? new Slots(grouping)
    this.slots.set(key, slots)
    slots.requests.push(request)
    return slots
  }

  open(fields: readonly FieldInfo[]): void {
    this.boundaries = BigInt64Array.from(new Set(this.requests.flatMap(({ boundaries }) => [...boundaries]))).sort()
    this.wanted = wantedOf(this.boundaries, this.requests)
    this.list = [...this.slots.values()]
    for (const slots of this.list) slots.open(this.boundaries, fields)
    for (const field of fields) if (this.reads(field)) this.runs.set(field.name, new Run(field, aggregationsOf(this.requests)))
  }

  reads(field: FieldInfo): boolean {
    return targetColumns([field], aggregationsOf(this.requests)).length > 0
  }

  get bytes(): number {
    let bytes = 0
    for (const slots of this.list) bytes += slots.bytes
    return bytes
  }

  add({ times, columns }: SeriesChunk): void {
    const { boundaries, wanted, list } = this
    const last = boundaries.length - 1
    if (last < 1 || times[times.length - 1] < boundaries[0] || times[0] >= boundaries[last]) return
    for (const slots of list) slots.turn(columns)
    const runs = columns.map(({ name }) => this.runs.get(name))
    let bucket = 0
    for (let row = times[0] >= boundaries[0] ? 0 : firstFrom(times, boundaries[0], 0); row < times.length; ) {
      bucket = lastAtOrBefore(boundaries, times[row], bucket)
      if (bucket >= last) return
      const end = firstFrom(times, boundaries[bucket + 1], row)
      if (wanted[bucket] === 1) {
        for (const slots of list) slots.enter(bucket, end - row)
        for (let c = 0; c < runs.length; c++) {
          const run = runs[c]
          if (run === undefined || !run.read(columns[c], row, end)) continue
          for (const slots of list) slots.add(c, run, times)
        }
      }
      row = end
    }
  }
}

/** What the buckets of a grid have come to, group by group. */
class Slots {
  readonly requests: AggregateRequest[] = []
  private readonly grouping: Grouping
  private boundaries = new BigInt64Array(0)
  private wanted = new Uint8Array(0)
  private rows = new Float64Array(0)
  private readonly cells = new Map<string, Cells>()
  private readonly slotGroup: number[] = []
  private readonly slotBucket: number[] = []
  private readonly numbers = new Map<number, number>()
  /** Of the columns of the chunk at hand. */
  private current: (Cells | undefined)[] = []
  private group = -1
  private bucket = -1
  /** -1 = nobody wants the bucket. */
  private slot = -1

  constructor(grouping: Grouping) {
    this.grouping = grouping
  }

  open(boundaries: BigInt64Array<ArrayBuffer>, fields: readonly FieldInfo[]): void {
    const aggregations = aggregationsOf(this.requests)
    this.boundaries = boundaries
    this.wanted = wantedOf(boundaries, this.requests)
    this.rows = new Float64Array(boundaries.length)
    for (const field of fields) {
      const own = targetColumns([field], aggregations).map(({ aggregation }) => aggregation)
      if (own.length > 0) this.cells.set(field.name, new Cells(field, own))
    }
  }

  get bytes(): number {
    let bytes = this.slotGroup.length * SLOT_BYTES * (this.cells.size + 1)
    for (const { extraBytes } of this.cells.values()) bytes += extraBytes
    return bytes
  }

  /** A chunk begins. */
  turn(columns: readonly ColumnChunk[]): void {
    this.current = columns.map(({ name }) => this.cells.get(name))
  }

  /** What is added next belongs to the bucket. */
  enter(bucket: number, rows: number): void {
    const { group, all } = this.grouping
    this.rows[bucket] += rows
    if (group === this.group && bucket === this.bucket) return
    this.group = group
    this.bucket = bucket
    this.slot = -1
    if (this.wanted[bucket] === 0) return
    // A group of one series does not come back to a bucket.
    const key = group * this.boundaries.length + bucket
    const known = all ? undefined : this.numbers.get(key)
    if (known !== undefined) {
      this.slot = known
      return
    }
    this.slot = this.slotGroup.push(group) - 1
    this.slotBucket.push(bucket)
    if (!all) this.numbers.set(key, this.slot)
    for (const cells of this.cells.values()) cells.grow(this.slot + 1)
  }

  add(column: number, run: Run, times: BigInt64Array): void {
    if (this.slot >= 0) this.current[column]?.add(this.slot, run, times, this.grouping.tie)
  }

  result({ boundaries, aggregations }: AggregateRequest, fields: readonly FieldInfo[]): Aggregated {
    const [start, end] = [boundaries[0], boundaries[boundaries.length - 1]]
    const within = Uint8Array.from(this.boundaries, (time) => (time >= start && time < end ? 1 : 0))
    const targets = targetColumns(fields, aggregations)
    const asked = this.slotBucket.flatMap((bucket, slot) => (within[bucket] === 1 ? [slot] : []))
    const all = targets.map((target) => ({ target, values: this.valuesOf(target, asked) }))
    const kept = asked.flatMap((_, i) => (all.some(({ values }) => has(values, i)) ? [i] : []))
    const numbers = new Map<number, number>()
    const group = Int32Array.from(kept, (i) => {
      const own = this.slotGroup[asked[i]]
      const number = numbers.get(own) ?? numbers.size
      numbers.set(own, number)
      return number
    })
    return {
      sourceRows: this.rows.reduce((sum, rows, bucket) => (within[bucket] === 1 ? sum + rows : sum), 0),
      groups: [...numbers.keys()].map((own) => this.grouping.groups[own]),
      group,
      times: BigInt64Array.from(kept, (i) => this.boundaries[this.slotBucket[asked[i]]]),
      columns: all.map(({ target: { name, type, scale }, values }) => {
        const shown =
          kept.length === asked.length ? values : values instanceof Float64Array ? Float64Array.from(kept, (i) => values[i]) : kept.map((i) => values[i])
        return { name, type, ...(scale === undefined ? {} : { scale }), values: shown }
      }),
    }
  }

  private valuesOf({ type, field, aggregation }: TargetColumn, slots: readonly number[]): AggregatedColumn['values'] {
    const cells = this.cells.get(field.name) as Cells
    if (type !== 'float64' && aggregation.kind !== 'count') return slots.map((slot) => cells.value(slot, aggregation))
    const values = new Float64Array(slots.length)
    for (let i = 0; i < slots.length; i++) values[i] = (cells.value(slots[i], aggregation) as number | undefined) ?? Number.NaN
    return values
  }
}

const has = (values: AggregatedColumn['values'], row: number): boolean => {
  const value = values[row]
  return typeof value === 'number' ? !Number.isNaN(value) : value !== undefined
}

const aggregationsOf = (requests: readonly AggregateRequest[]): Aggregation[] => [
  ...new Map(requests.flatMap(({ aggregations }) => aggregations.map((one) => [one.suffix, one]))).values(),
]

/** One byte a boundary: whether the bucket that it begins is one of a request's. */
function wantedOf(all: BigInt64Array, requests: readonly AggregateRequest[]): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(all, (time) => (requests.some(({ boundaries }) => time >= boundaries[0] && time < boundaries[boundaries.length - 1]) ? 1 : 0))
}

function pick(tags: Record<string, string>, keys: readonly string[]): Record<string, string> {
  return Object.fromEntries(keys.filter((key) => Object.hasOwn(tags, key)).map((key) => [key, tags[key]]))
}

/** Equal for equal tags; NUL and 0x01 are in no tag. */
export function tagsKey(tags: Record<string, string>): string {
  return Object.keys(tags)
    .sort()
    .map((key) => `${key}\u0000${tags[key]}`)
    .join('\u0001')
}

/** The last boundary that is not after a time, from a guess on; -1 when all are. */
function lastAtOrBefore(boundaries: BigInt64Array, time: bigint, guess: number): number {
  if (boundaries[guess] <= time && time < boundaries[guess + 1]) return guess
  let low = -1
  let high = boundaries.length
  while (high - low > 1) {
    const middle = (low + high) >> 1
    if (boundaries[middle] <= time) low = middle
    else high = middle
  }
  return low
}

/** The first row from `from` on that is not before a time: steps that double, then halves. */
function firstFrom(times: BigInt64Array, time: bigint, from: number): number {
  let step = 1
  let low = from
  while (low + step < times.length && times[low + step] < time) {
    low += step
    step *= 2
  }
  let high = Math.min(low + step, times.length)
  while (high - low > 1) {
    const middle = (low + high) >> 1
    if (times[middle] < time) low = middle
    else high = middle
  }
  return high
}
