/**
 * Makes the modules of plugins' functions callable in a DuckDB instance, by the names that only the printer writes.
 *
 * A function over a whole partition gets the partition's lists once a row: the lists of one chunk share their bytes, so equal positions mean the same lists,
 * and across chunks the last results are kept and found again by comparing bytes.
 */
import duckdb from '@duckdb/node-bindings'
import type { SqlConstant, SqlFunctionBody, SqlFunctionColumn, SqlType } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { raise } from '../../duckdb/raised.ts'
import { type NativeSpec, nativeName } from '../../threads/function-spec.ts'
import { listOf, logicalType, newValues, problemOf, readColumn, readConstant, writeColumn } from './columns.ts'
import { constantsOf, valuesOf } from './template.ts'

const VECTOR_ROWS = 2048

export function registerNative(connection: duckdb.Connection, spec: NativeSpec, body: SqlFunctionBody): void {
  const { name, kind } = spec
  const values = valuesOf(spec).map(({ type }) => (kind === 'scalar' ? type : `${type}[]`) as SqlType)
  const constants = constantsOf(spec).map(({ type }) => type as SqlType)
  const fn = duckdb.create_scalar_function()
  duckdb.scalar_function_set_name(fn, nativeName(name))
  for (const type of [...values, ...(kind === 'window' ? (['BIGINT'] as const) : []), ...constants]) duckdb.scalar_function_add_parameter(fn, logicalType(type))
  duckdb.scalar_function_set_return_type(fn, logicalType(spec.returns as SqlType))
  if (spec.volatile === true) duckdb.scalar_function_set_volatile(fn)
  const fill = kind === 'window' ? windowFill(spec, values, constants, body) : rowFill(spec, values, constants, body)
  duckdb.scalar_function_set_function(fn, (info, input, output) => {
    try {
      const rows = duckdb.data_chunk_get_size(input)
      if (rows > 0) fill(input, output, rows)
    } catch (error) {
      duckdb.scalar_function_set_error(info, raise(error))
    }
  })
  duckdb.register_scalar_function(connection, fn)
  duckdb.destroy_scalar_function_sync(fn)
}

type Fill = (input: duckdb.DataChunk, output: duckdb.Vector, rows: number) => void

/** Over the rows of a chunk, or over groups whose values are lists. */
function rowFill(spec: NativeSpec, values: readonly SqlType[], constants: readonly SqlType[], body: SqlFunctionBody): Fill {
  const nulls = new Uint8Array(VECTOR_ROWS)
  const returns = spec.returns as SqlType
  return (input, output, rows) => {
    nulls.fill(0, 0, rows)
    const columns = values.map((type, i) => readColumn(duckdb.data_chunk_get_vector(input, i), type, rows, nulls))
    const result = call(spec, body, columns, rows, constantsIn(input, values.length, constants))
    writeColumn(output, returns, rows, result, nulls)
  }
}

function constantsIn(input: duckdb.DataChunk, first: number, types: readonly SqlType[]): SqlConstant[] {
  return types.map((type, i) => readConstant(duckdb.data_chunk_get_vector(input, first + i), type))
}

function call(spec: NativeSpec, body: SqlFunctionBody, columns: SqlFunctionColumn[], rows: number, constants: SqlConstant[]): SqlFunctionColumn | undefined {
  const result = body(columns, rows, constants)
  const problem = problemOf(spec.returns as SqlType, rows, result)
  if (problem !== undefined) throw new SvcError('DATABASE_ERROR', `cannot call ${spec.name}: its module in plugin "${spec.plugin}" returned ${problem}`)
  return result
}

function windowFill(spec: NativeSpec, values: readonly SqlType[], constants: readonly SqlType[], body: SqlFunctionBody): Fill {
  const nulls = new Uint8Array(VECTOR_ROWS)
  const recent = new Recent()
  const returns = spec.returns as SqlType
  const out = newValues(returns, VECTOR_ROWS)
  const validity = new Uint8Array(VECTOR_ROWS)
  return (input, output, rows) => {
    nulls.fill(0, 0, rows)
    const lists = values.map((type, i) => readColumn(duckdb.data_chunk_get_vector(input, i), type, rows, nulls))
    const numbers = readColumn(duckdb.data_chunk_get_vector(input, values.length), 'BIGINT', rows, nulls).values as BigInt64Array
    const given = constantsIn(input, values.length + 1, constants)
    const key = given.map(String).join('\0')
    const starts = lists[0].lists!.starts
    let last = -1
    let made: SqlFunctionColumn | undefined
    for (let i = 0; i < rows; i++) {
      validity[i] = 0
      if (nulls[i] === 1) continue
      if (starts[i] !== last) {
        last = starts[i]
        const columns = lists.map((column) => listOf(column, i))
        made = recent.of(columns, key, () => call(spec, body, columns, columns[0].values.length, given))
      }
      if (made === undefined) continue
      const at = Number(numbers[i]) - 1
      out[i] = made.values[at] as never
      validity[i] = made.validity === undefined ? 1 : made.validity[at]
    }
    writeColumn(output, returns, rows, { values: out, validity } as SqlFunctionColumn, nulls)
  }
}

/** Results kept of one function. */
const KEPT = 4

/** The last few results, found again by their input's bytes. */
class Recent {
  private readonly entries: { inputs: Buffer[]; key: string; result: SqlFunctionColumn | undefined }[] = []

  of(columns: readonly SqlFunctionColumn[], key: string, make: () => SqlFunctionColumn | undefined): SqlFunctionColumn | undefined {
    const inputs = columns.flatMap(({ values, validity }) => [bytesOf(values as Float64Array), ...(validity === undefined ? [] : [bytesOf(validity)])])
    const same = (entry: { inputs: Buffer[]; key: string }): boolean =>
      entry.key === key && entry.inputs.length === inputs.length && entry.inputs.every((bytes, i) => bytes.equals(inputs[i]))
    const known = this.entries.find(same)
    if (known !== undefined) return known.result
    const result = make()
    if (this.entries.length >= KEPT) this.entries.shift()
    this.entries.push({ inputs, key, result: result === undefined ? undefined : kept(result) })
    return result
  }
}

const bytesOf = ({ buffer, byteOffset, byteLength }: Float64Array | Uint8Array): Buffer => Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength)

/** The arrays of a result may be those of the next. */
function kept({ values, validity }: SqlFunctionColumn): SqlFunctionColumn {
  return { values: values.slice(), ...(validity === undefined ? {} : { validity: validity.slice() }) }
}
