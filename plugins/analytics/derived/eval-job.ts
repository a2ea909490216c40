/** Beside the data: a statement over a range of time, as rows that can be written. */
import type { Job, Reader, SqlColumn } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { resultType } from 'svcdb/lib/sql-result'
import { sourcesOf } from './sources.ts'

export interface EvalArgs {
  namespace: string
  query: string
  /** The parameters $1 and $2, nanoseconds. Rows before the start are left out: a bucket that begins before it is not whole. */
  start: bigint
  end: bigint
  maxRows: number
  /** Nothing is run. */
  checkOnly: boolean
}

export interface EvalRows {
  times: BigInt64Array
  /** By row; null = the series lacks the tag. */
  tags: { name: string; values: (string | null)[] }[]
  /** By row; NaN = no value. */
  fields: { name: string; values: Float64Array }[]
}

const NS_PER = { s: 1_000_000_000n, ms: 1_000_000n, us: 1000n, ns: 1n }

/** A column of the statement, as a part of points. */
type Part =
  | { kind: 'time'; unit: bigint }
  | { kind: 'tag'; name: string; values: (string | null)[] }
  | { kind: 'field'; name: string; scale: number; values: number[] }

/** @returns undefined for too many rows. */
const evaluate: Job<EvalArgs, EvalRows | undefined> = async (reader, { namespace, query, start, end, maxRows, checkOnly }, { signal }) => {
  await requirePlain(reader, namespace, query)
  const cursor = await reader.sql({ namespace, query, parameters: [{ timestamp: start }, { timestamp: end }] })
  const parts = cursor.columns.map(partOf)
  if (parts.filter(({ kind }) => kind === 'time').length !== 1) throw refuse('it has no column "_time"; name the time of its rows so')
  if (!parts.some(({ kind }) => kind === 'field')) throw refuse('it has no column of numbers, which would be a field')
  const times: bigint[] = []
  const result = (): EvalRows => ({
    times: BigInt64Array.from(times),
    tags: parts.flatMap((part) => (part.kind === 'tag' ? [{ name: part.name, values: part.values }] : [])),
    fields: parts.flatMap((part) => (part.kind === 'field' ? [{ name: part.name, values: Float64Array.from(part.values) }] : [])),
  })
  if (checkOnly) return result()
  for await (const { rows, columns } of cursor) {
    signal.throwIfAborted()
    const at = parts.findIndex(({ kind }) => kind === 'time')
    const unit = (parts[at] as { unit: bigint }).unit
    for (let row = 0; row < rows; row++) {
      const value = (column: number): unknown => (columns[column].validity?.[row] === 0 ? null : columns[column].values[row])
      const given = value(at)
      if (given === null || given === undefined) continue
      const time = BigInt(given as bigint) * unit
      if (time < start) continue
      if (times.length >= maxRows) return undefined
      times.push(time)
      for (const [i, part] of parts.entries()) {
        if (part.kind === 'tag') part.values.push((value(i) as string | null) ?? null)
        if (part.kind === 'field') part.values.push(numberOf(value(i), part.scale))
      }
    }
  }
  return result()
}

export default evaluate

/** Each time: a field may have become encrypted since. @throws INVALID_REQUEST */
async function requirePlain(reader: Reader, namespace: string, query: string): Promise<void> {
  const sources = sourcesOf(query)
  for (const { name, fields } of await reader.measurements(namespace)) {
    const encrypted = sources.has(name.toLowerCase()) ? fields.find((field) => field.encrypted === true) : undefined
    if (encrypted !== undefined)
      throw refuse(
        `field "${encrypted.name}" of measurement "${name}" is encrypted, and its target would hold it in the clear; keep such fields in a measurement of their own`,
      )
  }
}

function partOf({ name, type }: SqlColumn): Part {
  const found = resultType(type)
  if (name === '_time') {
    if (found.kind !== 'timestamp') throw refuse(`its column "_time" is ${type}, not a time; cast it with CAST(... AS TIMESTAMP_NS)`)
    return { kind: 'time', unit: NS_PER[found.unit] }
  }
  if (found.kind === 'decimal') return { kind: 'field', name, scale: found.scale, values: [] }
  if (found.kind === 'simple' && found.name === 'Utf8') return { kind: 'tag', name, values: [] }
  if (found.kind === 'simple' && /^(U?Int|Float)/.test(found.name)) return { kind: 'field', name, scale: 0, values: [] }
  throw refuse(`its column "${name}" is ${type}; cast it to DOUBLE for a field, or to VARCHAR for a tag`)
}

function numberOf(value: unknown, scale: number): number {
  const number = value === null || value === undefined ? Number.NaN : Number(value) / 10 ** scale
  return Number.isFinite(number) ? number : Number.NaN
}

const refuse = (cause: string): SvcError => new SvcError('INVALID_REQUEST', cause)
