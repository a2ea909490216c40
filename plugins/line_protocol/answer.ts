/** How a write is answered: the texts that InfluxDB clients match on, from what the parser and the storage refused. */
import type { WriteResult } from 'svcdb'
import { type ErrorCode, errorKind, SvcError } from 'svcdb/lib/errors'
import type { LineFailure, ParseOutcome } from './outcome.ts'

/**
 * The words of InfluxDB 1 for what a repeat cannot mend. Its client for Java goes by them, not by the status: without them it sends the whole batch again and
 * again, also the points that were stored, and all that is newer waits behind it.
 */
const FINAL: Readonly<Record<string, string | undefined>> = {
  SCHEMA_ERROR: 'field type conflict',
  PARTIAL_WRITE: 'points beyond retention policy',
  FUTURE_TIMESTAMP: 'points beyond retention policy',
}

/** The words of InfluxDB 3 for a refusal that lists its lines: its clients read the list of no other. */
const LISTED = { partly: 'partial write of line protocol occurred', whole: 'parsing failed for write_lp endpoint' } as const

/**
 * Nothing parsed. Telegraf and the v1 clients look for "unable to parse".
 * @param lists whether the lines at fault are listed, as InfluxDB 3 does
 * @param joined whether the body looks like several lines without their ends
 */
export function nothingParsed(outcome: ParseOutcome, lists = false, joined = false): SvcError {
  const { failures, rejected } = outcome
  const first = failures[0]
  const hint = joined ? '; these look like several lines without their ends: curl -d FILE takes them away, --data-binary keeps them' : ''
  const text = `${first.message} (line ${first.line}${others(rejected)}${words(first, '; ')})${hint}`
  return refused(onlyCode(failures) ?? 'INVALID_POINT', text, { written: 0, rejected }, lists ? failures : undefined)
}

/** Some lines did not parse, and the caller wants all of them or none. @param lists as for `nothingParsed` */
export function notWhole({ failures, rejected }: ParseOutcome, lists: boolean): SvcError {
  const first = failures[0]
  const text = `nothing was written, for accept_partial is false: ${first.message} (line ${first.line}${others(rejected)}${words(first, '; ')})`
  return refused(onlyCode(failures) ?? 'INVALID_POINT', text, { written: 0, rejected }, lists ? failures : undefined, LISTED.whole)
}

/** Undefined when all was written. A partial write begins with just these words: clients then do not send it again. @param lists as for `nothingParsed` */
export function refusal(outcome: ParseOutcome, result: WriteResult, lists = false): SvcError | undefined {
  const rejected = outcome.rejected + result.rejected
  if (rejected === 0) return undefined
  const admission = result.rejections.map((r): LineFailure => ({ line: r.position, code: r.code, message: r.message }))
  const failures = [...outcome.failures, ...admission].sort((a, b) => a.line - b.line)
  const first = failures[0]
  const counts = { written: result.written, rejected }
  const listed = lists ? failures : undefined
  const only = onlyCode(failures)
  if (result.written === 0 && outcome.rejected === 0 && only !== undefined && only !== 'PARTIAL_WRITE') {
    return refused(only, `${first.message} (line ${first.line}${others(rejected)}${words(first, '; ')})`, counts, listed)
  }
  const points = result.written === 1 ? '1 point' : `${result.written} points`
  const text = `partial write: ${points} written, ${rejected} rejected; first: line ${first.line}: ${first.message}${words(first, ' (', ')')}`
  return refused('PARTIAL_WRITE', text, counts, listed)
}

export function tooManyPoints(limit: number): SvcError {
  return new SvcError('BAD_REQUEST', `cannot write more than ${limit} points at once: max_write_batch_size is ${limit}; send smaller batches`)
}

/** @param listed lines that the answer lists; undefined = none, as before InfluxDB 3 */
function refused(
  code: ErrorCode,
  text: string,
  counts: { written: number; rejected: number },
  listed: readonly LineFailure[] | undefined,
  known: string = LISTED.partly,
): SvcError {
  if (listed === undefined) return new SvcError(code, text, { detail: counts })
  const data = listed.map(({ line, message }) => ({ line_number: line, error_message: message }))
  return new SvcError(code, `${text} (InfluxDB: ${known})`, { detail: { ...counts, data } })
}

/** The code that all failures share and that the table of errors knows. */
function onlyCode(failures: readonly LineFailure[]): ErrorCode | undefined {
  const code = failures[0].code
  return failures.every((failure) => failure.code === code) && errorKind(code) !== undefined ? (code as ErrorCode) : undefined
}

function others(rejected: number): string {
  return rejected === 1 ? '' : `, the first of ${rejected} rejected`
}

function words({ code }: LineFailure, before: string, after = ''): string {
  const known = FINAL[code]
  return known === undefined ? '' : `${before}InfluxDB: ${known}${after}`
}
