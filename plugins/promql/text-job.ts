/** What is done with a query's text alone; beside the data, since a long text takes its time. */
import type { Job } from 'svcdb'
import { parsed } from './answer-query.ts'
import type { Expr, LabelMatcher } from './ast.ts'
import { ExecutionError } from './errors.ts'
import { apiError } from './http/api-error.ts'
import type { ParseLimits } from './parser/cursor.ts'
import { toJson } from './parser/json.ts'
import { pretty } from './parser/pretty.ts'
import { selectorsIn } from './selectors-in.ts'

export interface TextArgs {
  query: string
  parseLimits: ParseLimits
  wanted: 'format' | 'tree' | 'selectors'
}

/** Bytes that are handed over at a time. */
const CHUNK_BYTES = 256 * 1024

/** @returns selectors; all else is emitted as an answer of the HTTP API, for a tree is many times as large as its query. */
const textJob: Job<TextArgs, LabelMatcher[][] | undefined> = async (_reader, { query, parseLimits, wanted }, io) => {
  // Without the name of the parameter, as Prometheus has it here.
  if (wanted === 'selectors') return selectorsIn(parsed(query, parseLimits, (text) => apiError('bad_data', text)))
  const expr = parsed(query, parseLimits)
  const bytes = Buffer.from(JSON.stringify({ status: 'success', data: wanted === 'format' ? laidOut(expr, query.length) : toJson(expr) }))
  for (let at = 0; at < bytes.length; at += CHUNK_BYTES) await io.emit(Uint8Array.from(bytes.subarray(at, at + CHUNK_BYTES)))
  return undefined
}

function laidOut(expr: Expr, length: number): string {
  try {
    return pretty(expr, length)
  } catch (error) {
    throw error instanceof ExecutionError ? apiError('execution', error.message, error) : error
  }
}

export default textJob
