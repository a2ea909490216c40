/** What a target has already of rows that were computed for it, and what it has beyond them. */
import type { FieldInfo, Reader, SeriesChunk } from 'svcdb'
import { type Aggregated, rowValue, tagsKey } from './aggregate.ts'

export interface StaleRows {
  tags: Record<string, string>
  times: BigInt64Array
}

export interface Compared {
  /** Rows that the target has already, one byte each. */
  unchanged: Uint8Array
  /** Rows of the target that are no more, or that have lost a field. */
  stale: StaleRows[]
}

/** The rows of a target in a range of time. */
interface TargetRows {
  namespace: string
  target: string
  start: bigint
  end: bigint
  targetFields: readonly FieldInfo[] | undefined
}

export async function compare(
  reader: Reader,
  { namespace, target, start, end, targetFields }: TargetRows,
  rows: Aggregated,
  signal: AbortSignal,
): Promise<Compared> {
  const unchanged = new Uint8Array(rows.group.length)
  const stale: StaleRows[] = []
  if (targetFields === undefined || targetFields.length === 0 || start >= end) return { unchanged, stale }
  const columns = new Map(rows.columns.map((column) => [column.name, column]))
  let find: ReturnType<typeof placesOf> | undefined
  for await (const chunk of reader.scan({ namespace, measurement: target, start, end })) {
    signal.throwIfAborted()
    find ??= placesOf(rows)
    const { tags, times } = chunk
    const places = find(tags)
    const gone: bigint[] = []
    for (let row = 0; row < times.length; row++) {
      const place = places?.get(times[row])
      const state = place === undefined ? 'stale' : stateOf(chunk, row, rows, columns, place)
      if (state === 'stale') gone.push(times[row])
      else if (state === 'unchanged') unchanged[place as number] = 1
    }
    if (gone.length > 0) stale.push({ tags, times: BigInt64Array.from(gone) })
  }
  return { unchanged, stale }
}

type Columns = ReadonlyMap<string, Aggregated['columns'][number]>

/** Of a row of the target, beside what was computed at `place`. */
function stateOf({ columns: held }: SeriesChunk, row: number, rows: Aggregated, columns: Columns, place: number): 'unchanged' | 'changed' | 'stale' {
  let same = true
  let shown = 0
  for (const { name, values, validity } of held) {
    if (validity !== undefined && validity[row] === 0) continue
    shown++
    const column = columns.get(name)
    const now = column === undefined ? undefined : rowValue(column, place)
    if (now === undefined) return 'stale'
    if (!equal(values[row], now)) same = false
  }
  return same && shown === count(rows, place) ? 'unchanged' : 'changed'
}

/** Finds rows by their tags and times. */
function placesOf({ groups, group, times }: Aggregated): (tags: Record<string, string>) => Map<bigint, number> | undefined {
  const byTags = new Map(groups.map((tags, i) => [tagsKey(tags), i]))
  const places = groups.map(() => new Map<bigint, number>())
  for (let i = 0; i < group.length; i++) places[group[i]].set(times[i], i)
  return (tags) => places[byTags.get(tagsKey(tags)) ?? -1]
}

const count = ({ columns }: Aggregated, row: number): number => columns.reduce((sum, column) => sum + (rowValue(column, row) === undefined ? 0 : 1), 0)

function equal(a: unknown, b: unknown): boolean {
  if (a instanceof Uint8Array && b instanceof Uint8Array) return Buffer.compare(a, b) === 0
  if (typeof b === 'boolean') return (a === 1 || a === true) === b
  return Object.is(a, b)
}
