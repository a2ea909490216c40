/** SQL functions of plugins as threads and processes are handed them. */
import type { DeclaredSqlFunction } from 'svcdb'

/** A declaration that can cross to threads: the module is its URL's text. */
export type FunctionSpec = Omit<DeclaredSqlFunction, 'module'> & { readonly module?: string }

export function functionSpec({ module, ...declared }: DeclaredSqlFunction): FunctionSpec {
  return module === undefined ? declared : { ...declared, module: module.href }
}

/** What a process is told of a function, as JSON. */
export type NativeSpec = Pick<FunctionSpec, 'name' | 'plugin' | 'kind' | 'args' | 'module' | 'returns' | 'volatile'>

export function nativeSpec({ name, plugin, kind, args, module, returns, volatile }: FunctionSpec): NativeSpec {
  return { name, plugin, kind, args: args.map(({ default: _, ...arg }) => arg), module, returns, volatile }
}

/** Whether a module computes the values; else an expression does. */
export function isNative({ module, makesExpression }: FunctionSpec): boolean {
  return module !== undefined && makesExpression !== true
}

/** What DuckDB calls it. Not on the gate's list, so that only the printer writes it. */
export const nativeName = (name: string): string => `${NATIVE_PREFIX}${name}`
export const NATIVE_PREFIX = '__svc_fn_'
