/** The functions that statements may call beside DuckDB's: those of the engine, and those of plugins, on one thread or in one process. */
import type { DuckDBConnection } from '@duckdb/node-api'
import type duckdb from '@duckdb/node-bindings'
import type { FunctionSpec, NativeSpec } from '../threads/function-spec.ts'
import { registerBucketFunction } from './bucket-function.ts'
import { registerHistogramFunctions } from './histogram-functions.ts'
import { loadBodies } from './plugin-functions/load.ts'
import { PluginFunctions } from './plugin-functions/plugin-functions.ts'
import { registerNative } from './plugin-functions/register.ts'
import { registerTimeFunctions } from './time-functions.ts'

/** Registers functions, once for an instance of DuckDB. */
type Register = (connection: DuckDBConnection) => void

interface SqlSetup {
  functions: PluginFunctions
  register: Register
}

const setups = new WeakMap<readonly FunctionSpec[], Promise<SqlSetup>>()

/** The same for the same declarations. */
export function sqlSetup(specs: readonly FunctionSpec[]): Promise<SqlSetup> {
  let setup = setups.get(specs)
  if (setup === undefined) {
    const functions = new PluginFunctions(specs)
    setups.set(specs, (setup = registration(functions.native).then((register) => ({ functions, register }))))
  }
  return setup
}

export async function registration(specs: readonly NativeSpec[]): Promise<Register> {
  const bodies = await loadBodies(specs)
  return (connection) => {
    const raw = (connection as unknown as { connection: duckdb.Connection }).connection
    registerHistogramFunctions(raw)
    registerTimeFunctions(raw)
    registerBucketFunction(raw)
    for (const [i, spec] of specs.entries()) registerNative(raw, spec, bodies[i])
  }
}
