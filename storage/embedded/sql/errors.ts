/** DuckDB's errors, sorted into the caller's and ours. */
import { SvcError } from 'svcdb/lib/errors'
import { raised } from '../duckdb/raised.ts'
import { unreadableFile } from '../duckdb/unreadable-file.ts'
import { NATIVE_PREFIX } from '../threads/function-spec.ts'
import type { Names } from './names.ts'

const CALLERS =
  /^(Parser|Binder|Catalog|Conversion|Out of Range|Invalid Input|Not implemented|Constraint|Mismatch Type|Type|Invalid type|Syntax|Expression|Sequence|Divide by Zero|Decimal|Parameter Not Resolved) Error: /i

/** Only an error that a source of rows met has a reason that is not about the statement and its values. */
const WRAPPED = /^Invalid Input Error: \{"exception_type":"/i

const SEGMENT_ENDING = '.parquet'
/** Characters of a reason that are told. */
const MAX_REASON = 4096

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
  // A caller's error may have a value of his in it, which says what it likes.
  const theirs = CALLERS.test(text) && !WRAPPED.test(text)
  if (!theirs && /No space left on device/i.test(text)) {
    return new SvcError('STORAGE_FULL', 'no space left on the data volume; free space and retry, writes resume without a restart', { cause: error })
  }
  if (!theirs && /max_temp_directory_size/.test(text)) {
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

/** Other databases call the column of times so, and DuckDB's own suggestions never name it; in others text may stand in double quotes. */
export function hinted(text: string): string {
  if (/(?:^Referenced column|does not have a column named) (["']?)(?:time|timestamp)\1(?!\S)/i.test(text))
    return `${text.replace(/\.$/, '')}; the time of a point is the column _time`
  // A time is a whole number to DuckDB here; the text may be compared with a field all the same.
  if (/^Could not convert string '[^']*' to INT64/.test(text)) return `${text}; a time is written as '2026-01-31T00:00:00Z', a number without quotes`
  if (!/^Referenced column "/i.test(text)) return text
  // What it suggests are columns that the statement reads besides, and not those that there are.
  return `${text.replace(/!?\s*Candidate bindings: [\s\S]*$/, '')}; DESCRIBE lists the columns of a measurement, and text is written in single quotes`
}

const SAMPLE_BY = "SAMPLE BY 5m is GROUP BY time_bucket('5m', _time) here"
const LATEST_BY = 'LATEST BY a is LATEST ON _time PARTITION BY a here'

/** Where the parser stopped, and what a duration or clause of other dialects is called here. @param at of the first character that it did not expect. */
export function placed(message: string, text: string, at: number): string {
  const place = `${message} (character ${at + 1})`
  const clause = /^BY\b/i.test(text.slice(at)) ? /\b(?:SAMPLE|LATEST)\s+$/i.exec(text.slice(Math.max(at - 32, 0), at)) : null
  if (clause !== null) return `${place}; ${/^s/i.test(clause[0]) ? SAMPLE_BY : LATEST_BY}`
  const keys = /^KEYS\b/i.test(text.slice(at)) ? /\bSHOW\s+(?:TAG|FIELD)\s+$/i.test(text.slice(Math.max(at - 32, 0), at)) : false
  if (keys) {
    const [, of = '<measurement>'] = /^KEYS\s+FROM\s+(\w{1,64})/i.exec(text.slice(at)) ?? []
    return `${place}; DESCRIBE ${of} has the tags and fields, SHOW TABLES the measurements`
  }
  if (/^VALUES\b/i.test(text.slice(at)) && /\bSHOW\s+TAG\s+$/i.test(text.slice(Math.max(at - 32, 0), at))) {
    const [, of = '<measurement>'] = /^VALUES\s+FROM\s+(\w{1,64})/i.exec(text.slice(at)) ?? []
    const [, tag = '<tag>'] = /\bKEY\s*=\s*"?(\w{1,64})/i.exec(text.slice(at, at + MAX_REASON)) ?? []
    return `${place}; SELECT DISTINCT ${tag} FROM ${of} has the values of a tag`
  }
  const [, matched] = /(\w{1,64}) ?[=!]~ ?\//.exec(text.slice(Math.max(at - MAX_REASON, 0), at)) ?? []
  if (matched !== undefined) return `${place}; a regular expression is regexp_matches(${matched}, 'pattern') here`
  if (/^FILL\s*\(/i.test(text.slice(at))) return `${place}; buckets without points are those of a generate_series, joined by LEFT JOIN`
  if (/^\s*from\s*\(\s*bucket\b/i.test(text)) return `${place}; this is Flux, and what is answered is SQL`
  return /\d$/.test(text.slice(0, at)) && /^(?:ns|us|ms|[smhdwy])\b/i.test(text.slice(at))
    ? `${place}; a duration is INTERVAL '1 hour', in time_bucket '1h'`
    : place
}

/**
 * Leaves the reason: not the excerpt of the rewritten statement, not paths, not the names of what a statement is rewritten to. A text may have all of a value that a
 * statement makes, a megabyte of one character: no expression here looks twice at where it has been.
 */
function clean(text: string): string {
  const reason = text.replace(CALLERS, '').replace(/\n[^\S\n]*LINE \d+:[\s\S]*$/, '')
  // Behind the last parenthesis nothing closes.
  const closed = reason.lastIndexOf(')') + 1
  const cleaned = (reason.slice(0, closed).replace(/\(?\b(?:read_parquet|parquet_scan)\([^)]*\)\)?/g, 'a measurement') + reason.slice(closed))
    .replace(/[^\s'"]+/g, withoutPath)
    .replaceAll(NATIVE_PREFIX, '')
    .replace(/__svc_\w+/g, 'an internal function')
    .replace(/\n+/g, ' ')
    .trim()
  return cleaned.length > MAX_REASON ? `${cleaned.slice(0, MAX_REASON).toWellFormed()}...` : cleaned
}

/** From the first slash of a word, and a drive before it, to where the last segment is named. */
function withoutPath(word: string): string {
  const end = word.lastIndexOf(SEGMENT_ENDING)
  const slash = end < 0 ? -1 : word.search(/[\\/]/)
  if (slash < 0 || slash > end) return word
  const start = /^[A-Za-z]:$/.test(word.slice(Math.max(0, slash - 2), slash)) ? slash - 2 : slash
  return `${word.slice(0, start)}a segment${word.slice(end + SEGMENT_ENDING.length)}`
}
