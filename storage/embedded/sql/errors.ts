/** DuckDB's errors, sorted into the caller's and ours. */
import { SvcError } from 'svcdb/lib/errors'
import { raised } from '../duckdb/raised.ts'
import { unreadableFile } from '../duckdb/unreadable-file.ts'
import { NATIVE_PREFIX } from '../threads/function-spec.ts'
import type { Names } from './names.ts'

const CALLERS =
  /^(Parser|Binder|Catalog|Conversion|Out of Range|Invalid Input|Not implemented|Constraint|Mismatch Type|Type|Invalid type|Syntax|Expression|Sequence|Divide by Zero|Decimal|Parameter Not Resolved) Error: /i

/** The second is what a source of rows met, in an error about that source. */
const OUT_OF_MEMORY = /^Out of Memory Error|^Invalid Input Error: \{"exception_type":"Out of Memory"/i

/**
 * @param names of the statement, which DuckDB's texts have in their generated form.
 * @returns an SvcError whose text names neither files nor the rewritten statement; what is not DuckDB's error passes unchanged.
 */
export function sqlError(error: unknown, signal?: AbortSignal, names?: Names): unknown {
  if (signal?.aborted)
    return signal.reason instanceof SvcError ? signal.reason : new SvcError('QUERY_TIMEOUT', 'the query was stopped before it was done', { cause: error })
  if (!(error instanceof Error) || error instanceof SvcError) return error
  const ours = raised(error)
  if (ours !== undefined) return ours
  const unreadable = unreadableFile(error)
  if (unreadable !== undefined) return unreadable
  const text = error.message
  if (/^INTERRUPT Error/i.test(text)) return new SvcError('QUERY_TIMEOUT', 'the query was stopped before it was done', { cause: error })
  if (/No space left on device/i.test(text)) {
    return new SvcError('STORAGE_FULL', 'no space left on the data volume; free space and retry, writes resume without a restart', { cause: error })
  }
  if (/max_temp_directory_size/.test(text)) {
    return new SvcError(
      'SQL_ERROR',
      'cannot run this query: it needs more scratch space than max_scratch_size allows; narrow the time range, group less finely, or raise [database] max_scratch_size or per_query_memory_limit',
      { cause: error },
    )
  }
  if (OUT_OF_MEMORY.test(text)) {
    return new SvcError(
      'SQL_ERROR',
      'cannot run this query: it needs more memory than per_query_memory_limit allows; narrow the time range, group less finely or raise the limit',
      { cause: error },
    )
  }
  if (CALLERS.test(text)) return new SvcError('SQL_ERROR', `cannot run this query: ${hinted(clean(names?.publicText(text) ?? text))}`, { cause: error })
  return new SvcError('DATABASE_ERROR', text, { cause: error })
}

/** Other databases call the column of times so, and DuckDB's own suggestions never name it. */
export function hinted(text: string): string {
  return /^Referenced column "(?:time|timestamp)" not found/i.test(text) ? `${text}; the time of a point is the column _time` : text
}

/** Leaves the reason: not the excerpt of the rewritten statement, not paths, not the names of what a statement is rewritten to. */
function clean(text: string): string {
  return text
    .replace(CALLERS, '')
    .replace(/\n\s*LINE \d+:[\s\S]*$/, '')
    .replace(/\(?\b(?:read_parquet|parquet_scan)\([^)]*\)\)?/g, 'a measurement')
    .replace(/(?:[A-Za-z]:)?[\\/][^\s'"]*\.parquet/g, 'a segment')
    .replaceAll(NATIVE_PREFIX, '')
    .replace(/__svc_\w+/g, 'an internal function')
    .replace(/\n+/g, ' ')
    .trim()
}
