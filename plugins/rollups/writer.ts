/** Brings computed buckets into the target: takes away what is no more, then writes what has changed. Doing it twice has the effect of doing it once. */
import type { DeleteRequest, FieldType, Matcher, Storage } from 'svcdb'
import type { WriteBatch } from 'svcdb/lib/columns'
import { classify, SvcError } from 'svcdb/lib/errors'
import { type Aggregated, rowValue, rowWeight, tagsKey } from './aggregate.ts'
import type { Value } from './cells.ts'
import type { Definition } from './definition.ts'
import type { Done } from './recompute-job.ts'
import type { StaleRows } from './target-rows.ts'

/** Deletes of single series that one slice may make; with more, its range is deleted whole and written again. */
const MAX_DELETES = 64

/** What is to be deleted from the target before rows are written, and which of the rows then are to be. */
export function plan({ start, end, rows, unchanged, stale }: Pick<Done, 'start' | 'end' | 'rows' | 'unchanged' | 'stale'>): {
  deletes: Pick<DeleteRequest, 'matchers' | 'start' | 'end'>[]
  write: Int32Array
} {
  const deletes = staleDeletes(rows, stale)
  if (deletes.length > MAX_DELETES) return { deletes: [{ start, end }], write: Int32Array.from({ length: rows.group.length }, (_, i) => i) }
  const write: number[] = []
  for (let i = 0; i < unchanged.length; i++) if (unchanged[i] === 0) write.push(i)
  return { deletes, write: Int32Array.from(write) }
}

function staleDeletes(rows: Aggregated, stale: readonly StaleRows[]): Pick<DeleteRequest, 'matchers' | 'start' | 'end'>[] {
  if (stale.length === 0) return []
  const used = new Set(rows.times)
  // Whole times go for all series at once.
  const emptied = [...new Set(stale.flatMap(({ times }) => [...times].filter((time) => !used.has(time))))].sort(ascending)
  const deletes: Pick<DeleteRequest, 'matchers' | 'start' | 'end'>[] = runs(emptied, [...used].sort(ascending)).map(([from, to]) => ({
    start: from,
    end: to + 1n,
  }))
  const keys = [...new Set([...rows.groups, ...stale.map(({ tags }) => tags)].flatMap(Object.keys))].sort()
  const kept = new Map<string, bigint[]>()
  for (let i = 0; i < rows.group.length; i++) {
    const key = tagsKey(rows.groups[rows.group[i]])
    const times = kept.get(key)
    if (times === undefined) kept.set(key, [rows.times[i]])
    else times.push(rows.times[i])
  }
  for (const { tags, times } of stale) {
    const own = [...times].filter((time) => used.has(time)).sort(ascending)
    // A row that is written again although it has lost a field must not keep its others together with rows that stay as they are.
    const gone = new Set(own)
    const others = (kept.get(tagsKey(tags)) ?? []).filter((time) => !gone.has(time)).sort(ascending)
    const matchers = keys.map((tag): Matcher => ({ tag, op: '=', value: Object.hasOwn(tags, tag) ? tags[tag] : '' }))
    for (const [from, to] of runs(own, others)) deletes.push({ matchers, start: from, end: to + 1n })
  }
  return deletes
}

/** Runs of times without one of the others between them. Both ascending. */
function runs(times: readonly bigint[], others: readonly bigint[]): [bigint, bigint][] {
  const out: [bigint, bigint][] = []
  let at = 0
  for (const time of times) {
    const last = out.at(-1)
    while (at < others.length && last !== undefined && others[at] <= last[1]) at++
    if (last !== undefined && !(at < others.length && others[at] < time)) last[1] = time
    else out.push([time, time])
  }
  return out
}

const ascending = (a: bigint, b: bigint): number => (a < b ? -1 : a > b ? 1 : 0)

/** @param check before each delete; what it throws ends them. */
export async function deleteStale(
  storage: Storage,
  { namespace, target, name }: Definition,
  deletes: readonly Pick<DeleteRequest, 'matchers' | 'start' | 'end'>[],
  check: () => void = () => {},
): Promise<void> {
  for (const request of deletes) {
    check()
    try {
      const { segmentsSkipped } = await storage.delete({ namespace, measurement: target, ...request })
      if (segmentsSkipped > 0)
        throw new SvcError('OVERLOADED', `cannot materialise rollup "${name}": ${segmentsSkipped} segments of "${target}" are out of service; repair them`)
    } catch (error) {
      // Dropped meanwhile: there is nothing to take away.
      if (classify(error).code !== 'NOT_FOUND') throw error
    }
  }
}

/** The places of one write after the other: rows, and values as `rowWeight` counts them, so many that the event loop is held for some milliseconds at most. */
export function* batchesOf(rows: Aggregated, places: Int32Array, most: { rows: number; weight: number }): Generator<Int32Array> {
  let from = 0
  let weight = 0
  for (let at = 0; at < places.length; at++) {
    const own = rowWeight(rows, places[at])
    if (at > from && (at - from === most.rows || weight + own > most.weight)) {
      yield places.subarray(from, at)
      from = at
      weight = 0
    }
    weight += own
  }
  if (from < places.length) yield places.subarray(from)
}

/** @param places rows of `rows` to be written. */
export function fill(batch: WriteBatch, target: string, rows: Aggregated, places: Int32Array): void {
  const measurement = batch.resolver.measurement(batch.namespace, target)
  const table = batch.table(measurement)
  const series = new Map<number, number>()
  for (const place of places) {
    const group = rows.group[place]
    let number = series.get(group)
    if (number === undefined) series.set(group, (number = batch.resolver.series(measurement, Object.entries(rows.groups[group]).flat())))
    const time = rows.times[place]
    const row = table.addRow(number, Number(BigInt.asIntN(32, time)), Number(BigInt.asIntN(32, time >> 32n)), place)
    for (const column of rows.columns) {
      const { name, type, scale } = column
      const value = rowValue(column, place)
      if (value !== undefined) setValue(batch, table.column(name, type), row, type, scale ?? 0, value)
    }
  }
}

function setValue(
  batch: WriteBatch,
  column: ReturnType<ReturnType<WriteBatch['table']>['column']>,
  row: number,
  type: FieldType,
  scale: number,
  value: Value,
): void {
  if (typeof value === 'number') column.setF64(row, value)
  else if (typeof value === 'boolean') column.setBool(row, value)
  else if (typeof value === 'bigint') {
    if (type === 'decimal') column.setDecimal(row, value, scale)
    else column.setPair(row, Number(BigInt.asIntN(32, value)), Number(BigInt.asIntN(32, value >> 32n)))
  } else if (typeof value === 'string') {
    const at = batch.text(value)
    column.setPair(row, at, batch.heap.length - at)
  } else {
    const at = batch.heap.reserve(value.length)
    batch.heap.bytes.set(value, at)
    column.setPair(row, at, value.length)
  }
}
