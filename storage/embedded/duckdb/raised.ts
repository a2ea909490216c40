/** Errors that pass through DuckDB: a function of ours can only hand it a text, so the code travels in front and is found again. */
import { type ErrorCode, errorKind, SvcError } from 'svcdb/lib/errors'

const FORM = /^Invalid Input Error: svc:([A-Z_]+): ([\s\S]*)$/

const OUT_OF_MEMORY = /out of memory/i

/** @returns what DuckDB is told of a failure of ours; of one of its own, for want of memory for what we hand it, its text as it is. */
export function raise(error: unknown): string {
  if (error instanceof Error && !(error instanceof SvcError) && OUT_OF_MEMORY.test(error.message)) return error.message
  const code = error instanceof SvcError ? error.code : 'INTERNAL_ERROR'
  return `svc:${code}: ${error instanceof Error ? error.message : String(error)}`
}

/** @param error as DuckDB threw it. */
export function raised(error: unknown): SvcError | undefined {
  const found = error instanceof Error ? FORM.exec(error.message) : null
  return found !== null && errorKind(found[1]) !== undefined ? new SvcError(found[1] as ErrorCode, found[2]) : undefined
}
