/** Registers a scalar function of ours in DuckDB. */
import duckdb from '@duckdb/node-bindings'
import { raise } from '../duckdb/raised.ts'

/** Fills `output` for the rows of a chunk. What it throws fails the statement. */
type Fill = (input: duckdb.DataChunk, output: duckdb.Vector, rows: number) => void

export function defineScalar(connection: duckdb.Connection, name: string, parameters: duckdb.Type[], returns: duckdb.Type, fill: Fill): void {
  const fn = duckdb.create_scalar_function()
  duckdb.scalar_function_set_name(fn, name)
  for (const type of parameters) duckdb.scalar_function_add_parameter(fn, duckdb.create_logical_type(type))
  duckdb.scalar_function_set_return_type(fn, duckdb.create_logical_type(returns))
  duckdb.scalar_function_set_function(fn, (info, input, output) => {
    try {
      const n = duckdb.data_chunk_get_size(input)
      if (n > 0) fill(input, output, n)
    } catch (error) {
      duckdb.scalar_function_set_error(info, raise(error))
    }
  })
  duckdb.register_scalar_function(connection, fn)
  duckdb.destroy_scalar_function_sync(fn)
}
