/** From rows to buckets: groups series by tags, cuts their rows into buckets, and gives the target's rows as columns. Pure. */
import type { FieldInfo, FieldType, SeriesChunk } from 'svcdb'
import { type Aggregation, type TargetColumn, targetColumns } from './aggregations.ts'
import { Cells, type Value } from './cells.ts'

/** Rows of the target. */
export interface Aggregated {
  /** Source rows that were looked at. */
  sourceRows: number
  /** Tags of each group. */
  groups: Record<string, string>[]
  /** For each row its group and the start of its bucket. */
  group: Int32Array
  times: BigInt64Array
  columns: { name: string; type: FieldType; scale?: number; values: (Value | undefined)[] }[]
}

/** More than may be held at once: ask for fewer buckets. */
export class TooMuchError extends Error {}

/** About what a slot takes in each field. */
const SLOT_BYTES = 64

export class Aggregator {
  readonly columns: readonly TargetColumn[]
  private readonly boundaries: BigInt64Array
  private readonly groupBy: readonly string[] | undefined
  private readonly maxBytes: number
  private readonly cells: Map<string, Cells>
  private readonly numbers = new Map<string, number>()
  private readonly groups: Record<string, string>[] = []
  private readonly slots: Map<number, number>[] = []
  private readonly slotGroup: number[] = []
  private readonly slotBucket: number[] = []
  private series = -1
  private current = -1
  private tie = ''
  private sourceRows = 0

  /**
   * @param boundaries starts of all buckets, ascending, and the end of the last. @param groupBy tags that are kept; undefined = all.
   * @param maxBytes what may be held.
   */
  constructor(
    boundaries: BigInt64Array,
    fields: readonly FieldInfo[],
    aggregations: readonly Aggregation[],
    groupBy: readonly string[] | undefined,
    maxBytes: number,
  ) {
    this.columns = targetColumns(fields, aggregations)
    this.boundaries = boundaries
    this.groupBy = groupBy
    this.maxBytes = maxBytes
    const used = new Set(this.columns.map(({ field }) => field))
    this.cells = new Map(
      [...used].map((field) => [
        field.name,
        new Cells(
          field,
          this.columns.filter((c) => c.field === field).map((c) => c.aggregation),
        ),
      ]),
    )
  }

  /** The fields to be read. */
  get fields(): string[] {
    return [...this.cells.keys()]
  }

  /** @throws TooMuchError */
  add(chunk: SeriesChunk): void {
    const { times } = chunk
    if (times.length === 0) return
    if (chunk.series !== this.series) this.open(chunk)
    this.sourceRows += times.length
    const { boundaries } = this
    const columns = chunk.columns.flatMap((column) => {
      const cells = this.cells.get(column.name)
      return cells === undefined ? [] : [{ column, cells }]
    })
    let bucket = 0
    for (let row = 0; row < times.length; ) {
      bucket = lastAtOrBefore(boundaries, times[row], bucket)
      if (bucket < 0 || bucket >= boundaries.length - 1) throw new Error('cannot aggregate: a row lies outside of the buckets')
      const end = firstFrom(times, boundaries[bucket + 1], row)
      const slot = this.slot(bucket)
      for (const { column, cells } of columns) cells.add(slot, column, times, row, end, this.tie)
      row = end
    }
    this.requireRoom()
  }

  result(): Aggregated {
    const rows = this.slotGroup.length
    const columns = this.columns.map(({ name, type, scale, field, aggregation }) => {
      const cells = this.cells.get(field.name) as Cells
      const values = Array.from({ length: rows }, (_, slot) => cells.value(slot, aggregation))
      return { name, type, ...(scale === undefined ? {} : { scale }), values }
    })
    const kept = Int32Array.from(
      columns.length === 0 ? [] : Array.from({ length: rows }, (_, i) => i).filter((i) => columns.some(({ values }) => values[i] !== undefined)),
    )
    return {
      sourceRows: this.sourceRows,
      groups: this.groups,
      group: kept.map((slot) => this.slotGroup[slot]),
      times: BigInt64Array.from(kept, (slot) => this.boundaries[this.slotBucket[slot]]),
      columns: kept.length === rows ? columns : columns.map((column) => ({ ...column, values: Array.from(kept, (slot) => column.values[slot]) })),
    }
  }

  private open({ series, tags }: SeriesChunk): void {
    // No two series have all tags in common: nothing more comes to the group before.
    if (this.groupBy === undefined && this.current >= 0) this.slots[this.current] = new Map()
    this.series = series
    const kept = this.groupBy === undefined ? tags : pick(tags, this.groupBy)
    const key = tagsKey(kept)
    this.tie = this.groupBy === undefined ? '' : tagsKey(tags)
    let number = this.numbers.get(key)
    if (number === undefined) {
      number = this.groups.push(kept) - 1
      this.numbers.set(key, number)
      this.slots.push(new Map())
    }
    this.current = number
  }

  private slot(bucket: number): number {
    const slots = this.slots[this.current]
    let slot = slots.get(bucket)
    if (slot === undefined) {
      slot = this.slotGroup.push(this.current) - 1
      this.slotBucket.push(bucket)
      slots.set(bucket, slot)
      for (const cells of this.cells.values()) cells.grow(slot + 1)
    }
    return slot
  }

  private requireRoom(): void {
    let bytes = this.slotGroup.length * SLOT_BYTES * (this.cells.size + 1)
    for (const { extraBytes } of this.cells.values()) bytes += extraBytes
    if (bytes > this.maxBytes) throw new TooMuchError('too much')
  }
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
