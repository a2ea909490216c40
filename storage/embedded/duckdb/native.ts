/** DuckDB's native library, loaded by the first call: 30 MiB and 20 ms that a thread without statements for it does without. */
import { createRequire } from 'node:module'
import type bindings from '@duckdb/node-bindings'

type Native = typeof bindings

let loaded: Native | undefined

export function duckdb(): Native {
  loaded ??= createRequire(import.meta.url)('@duckdb/node-bindings') as Native
  return loaded
}
