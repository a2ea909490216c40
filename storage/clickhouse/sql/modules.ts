/**
 * Columns of an answer that modules of plugins compute, out of what ClickHouse answers for them: the values of a row, the lists of a group, or the rows of
 * whole partitions, which are gathered first. A thread of its own for each statement, which ends with it.
 */
import { Worker } from 'node:worker_threads'
import type { SqlFunctionColumn, SqlVector } from 'svcdb'
import { type ErrorCode, SvcError } from 'svcdb/lib/errors'
import { moduleUrl } from 'svcdb/lib/modules'
import type { ReadBlock, ReadColumn } from '../native/decode.ts'
import type { Deferred } from './expr.ts'
import type { ModuleAnswer, ModuleCall } from './module-thread.ts'
import type { Answered } from './plan.ts'
import { raise, type SqlType } from './types.ts'

/** Rows of all partitions that a statement may gather. */
const MAX_ROWS = 1_000_000

export class Modules {
  private readonly thread = new Worker(moduleUrl('./module-thread.ts', import.meta.url))
  private readonly waiting = new Map<number, PromiseWithResolvers<SqlFunctionColumn | undefined>>()
  private sent = 0

  constructor(signal: AbortSignal | undefined) {
    const fail = (error: unknown): void => {
      for (const { reject } of this.waiting.values()) reject(error)
      this.waiting.clear()
    }
    this.thread.unref()
    this.thread.on('message', (answer: ModuleAnswer) => {
      const waiting = this.waiting.get(answer.id)
      this.waiting.delete(answer.id)
      if ('message' in answer) waiting?.reject(new SvcError(answer.code as ErrorCode, answer.message))
      else waiting?.resolve(answer.result)
    })
    this.thread.on('error', fail)
    signal?.addEventListener(
      'abort',
      () => {
        fail(signal.reason)
        this.close()
      },
      { once: true },
    )
  }

  close(): void {
    void this.thread.terminate()
  }

  call({ spec, constants }: Deferred, columns: SqlFunctionColumn[], rows: number): Promise<SqlFunctionColumn | undefined> {
    const waiting = Promise.withResolvers<SqlFunctionColumn | undefined>()
    const id = this.sent++
    this.waiting.set(id, waiting)
    const call: ModuleCall = { id, name: spec.name, plugin: spec.plugin, module: String(spec.module), columns, rows, constants }
    this.thread.postMessage(call)
    return waiting.promise
  }
}

/** A column that is computed from the rows of one block. */
export async function computedOf(modules: Modules, deferred: Deferred, { rows, columns }: ReadBlock, from: number): Promise<SqlVector> {
  const given = deferred.types.map((type, i) => (deferred.takes === 'lists' ? listsOf(columns[from + i], rows, type) : valuesOf(columns[from + i], rows, type)))
  const result = await modules.call(deferred, given, rows)
  // Where an argument is missing there is no result.
  const present = Uint8Array.from({ length: rows }, (_, row) =>
    given.every(({ validity, rowValidity }) => (deferred.takes === 'lists' ? rowValidity : validity)?.[row] !== 0) ? 1 : 0,
  )
  return vectorOf(result, rows, present)
}

/** All blocks of an answer as one, with the columns of modules that take whole partitions. */
export async function gathered(
  modules: Modules,
  columns: readonly Answered[],
  blocks: AsyncIterable<ReadBlock>,
): Promise<{ blocks: ReadBlock[]; computed: Map<Answered, SqlVector> }> {
  const all: ReadBlock[] = []
  let rows = 0
  for await (const block of blocks) {
    all.push(block)
    rows += block.rows
    if (rows > MAX_ROWS) raise(`room for functions of whole partitions over more than ${MAX_ROWS} rows`)
  }
  const computed = new Map<Answered, SqlVector>()
  for (const column of columns)
    if (column.deferred?.takes === 'series') computed.set(column, await partitioned(modules, column.deferred, all, column.from, rows))
  return { blocks: all, computed }
}

async function partitioned(modules: Modules, deferred: Deferred, blocks: readonly ReadBlock[], from: number, rows: number): Promise<SqlVector> {
  const { types } = deferred
  const partitions = joined(blocks.map(({ columns }) => integers(columns[from + types.length])))
  const numbers = joined(blocks.map(({ columns }) => integers(columns[from + types.length + 1])))
  const members = new Map<bigint, number[]>()
  for (let row = 0; row < rows; row++) {
    const list = members.get(partitions[row]) ?? []
    // The place of a row in its partition is its number.
    list[Number(numbers[row]) - 1] = row
    members.set(partitions[row], list)
  }
  const given = types.map((type, i) => blocks.map((block) => valuesOf(block.columns[from + i], block.rows, type)))
  const wide = given.map((parts) => flattened(parts, rows))
  const values: unknown[] = new Array(rows).fill(null)
  for (const places of members.values()) {
    const columns = wide.map(({ values: all, validity }) => {
      const own = Array.from(places, (row) => all[row])
      const Values = all.constructor as unknown as { from(list: unknown[]): SqlFunctionColumn['values'] }
      return { values: Values.from(own), ...(validity === undefined ? {} : { validity: Uint8Array.from(places, (row) => validity[row]) }) }
    })
    const result = await modules.call(deferred, columns, places.length)
    const { values: found, validity } = vectorOf(result, places.length, undefined)
    for (const [i, row] of places.entries()) values[row] = validity?.[i] === 0 ? null : found[i]
  }
  return { values }
}

function flattened(parts: readonly SqlFunctionColumn[], rows: number): { values: ArrayLike<unknown>; validity?: Uint8Array } {
  const [first] = parts
  const values = first === undefined ? new Float64Array(0) : new (first.values.constructor as { new (length: number): Float64Array })(rows)
  const validity = parts.some((part) => part.validity !== undefined) ? new Uint8Array(rows).fill(1) : undefined
  let at = 0
  for (const part of parts) {
    values.set(part.values as Float64Array, at)
    if (part.validity !== undefined) validity?.set(part.validity, at)
    at += part.values.length
  }
  return { values, ...(validity === undefined ? {} : { validity }) }
}

const integers = ({ bytes }: ReadColumn): BigInt64Array => new BigInt64Array(bytes.buffer, bytes.byteOffset, bytes.length / 8)

function joined(parts: readonly BigInt64Array[]): BigInt64Array {
  const out = new BigInt64Array(parts.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const part of parts) {
    out.set(part, at)
    at += part.length
  }
  return out
}

/** Missing floats are NaN. */
function valuesOf({ bytes, nulls }: ReadColumn, rows: number, { id }: SqlType): SqlFunctionColumn {
  const validity = nulls?.includes(1) ? nulls.map((one) => 1 - one) : undefined
  const found = validity === undefined ? {} : { validity }
  if (id === 'DOUBLE') {
    const values = new Float64Array(bytes.buffer, bytes.byteOffset, rows)
    for (let i = 0; i < rows; i++) if (validity?.[i] === 0) values[i] = Number.NaN
    return { values, ...found }
  }
  if (id === 'TIMESTAMP_NS' || id === 'BIGINT') return { values: new BigInt64Array(bytes.buffer, bytes.byteOffset, rows), ...found }
  if (id === 'INTEGER') return { values: new Int32Array(bytes.buffer, bytes.byteOffset, rows), ...found }
  return raise(`modules over values of type ${id}`)
}

/** A list of no values is no list. */
function listsOf({ ends = new BigUint64Array(0), items }: ReadColumn, rows: number, type: SqlType): SqlFunctionColumn {
  const count = rows === 0 ? 0 : Number(ends[rows - 1])
  const { values, validity } = valuesOf(items as ReadColumn, count, type)
  const [starts, lengths, rowValidity] = [new Uint32Array(rows), new Uint32Array(rows), new Uint8Array(rows)]
  for (let row = 0; row < rows; row++) {
    starts[row] = row === 0 ? 0 : Number(ends[row - 1])
    lengths[row] = Number(ends[row]) - starts[row]
    rowValidity[row] = lengths[row] === 0 ? 0 : 1
  }
  return { values, ...(validity === undefined ? {} : { validity }), lists: { starts, lengths }, rowValidity }
}

/** @param present where a result may be. A NaN is NULL. */
function vectorOf(result: SqlFunctionColumn | undefined, rows: number, present: Uint8Array | undefined): SqlVector {
  const { values = [], validity, lists, rowValidity } = result ?? {}
  const found = new Uint8Array(rows)
  const out: unknown[] = new Array(rows).fill(null)
  for (let row = 0; row < rows; row++) {
    if (result === undefined || present?.[row] === 0 || (lists === undefined ? validity : rowValidity)?.[row] === 0) continue
    const value = lists === undefined ? values[row] : Array.from({ length: lists.lengths[row] }, (_, i) => cell(values, validity, lists.starts[row] + i))
    if (value === null || (typeof value === 'number' && Number.isNaN(value))) continue
    found[row] = 1
    out[row] = value
  }
  if (values instanceof Float64Array && lists === undefined)
    return { values: Float64Array.from(out, (value) => (value as number | null) ?? 0), validity: found }
  return { values: out, validity: found }
}

function cell(values: ArrayLike<unknown>, validity: Uint8Array | undefined, i: number): unknown {
  const value = values[i]
  return validity?.[i] === 0 || (typeof value === 'number' && Number.isNaN(value)) ? null : value
}

/** Rows of a computed column that belong to a block. */
export function sliceOf({ values, validity }: SqlVector, from: number, to: number): SqlVector {
  const all = values as unknown[]
  return { values: all.slice(from, to), ...(validity === undefined ? {} : { validity: validity.slice(from, to) }) }
}
