/** Labels, label values and series beside the data: parses the selectors, asks, writes the answer of the HTTP API. */
import type { JobIo } from 'svcdb'
import { TRUNCATED } from './answer-query.ts'
import type { LabelMatcher } from './ast.ts'
import type { DiscoverRequest, Discovery } from './discovery-contract.ts'
import { AnswerStream } from './http/answer-stream.ts'
import { apiError, invalidParameter } from './http/api-error.ts'
import { writeLabels } from './http/result-json.ts'
import { matchesNothing } from './parser/check.ts'
import type { ParseLimits } from './parser/cursor.ts'
import { parseSelector } from './parser/parse.ts'
import { ParseError } from './parser/parse-error.ts'

export interface DiscoveryArgs {
  namespace: string
  wanted: 'labels' | 'values' | 'series'
  /** The label whose values are wanted. */
  label?: string
  /** The texts of `match[]`. */
  selectors: string[]
  parseLimits: ParseLimits
  /** Milliseconds, both included. */
  start: number
  end: number
  /** What the answer may have. */
  limit: number
  maxResultBytes: number
}

export interface DiscoveryOutcome {
  truncated: boolean
}

/** @throws SvcError bad_data for selectors that do not parse. */
export async function answerDiscovery(discovery: Discovery, args: DiscoveryArgs, io: JobIo): Promise<DiscoveryOutcome> {
  const { wanted, start, end, limit } = args
  const selectors = selectorsOf(args.selectors, args.parseLimits, wanted === 'series')
  // One more tells whether anything was left out.
  const request: DiscoverRequest = { selectors, start, end, limit: limit + 1, signal: io.signal }
  const out = new AnswerStream(io, args.maxResultBytes)
  out.json.raw('{"status":"success","data":[')
  const truncated =
    wanted === 'series'
      ? await writeSeries(out, discovery, request, limit)
      : await writeTexts(out, wanted === 'labels' ? await discovery.labelNames(request) : await discovery.labelValues(args.label ?? '', request), limit)
  out.json.raw(']')
  await out.end(truncated ? [TRUNCATED] : [], [])
  return { truncated }
}

/** @param named a refusal names the parameter, as Prometheus has it for /series. @throws SvcError bad_data */
export function selectorsOf(selectors: readonly string[], parseLimits: ParseLimits, named = false): LabelMatcher[][] {
  const refuse = (text: string): Error => (named ? invalidParameter('match[]', text) : apiError('bad_data', text))
  const parsed = selectors.map((text) => {
    try {
      return parseSelector(text, parseLimits)
    } catch (error) {
      throw error instanceof ParseError ? refuse(error.message) : error
    }
  })
  if (parsed.some((matchers) => matchers.every(matchesNothing))) throw refuse('match[] must contain at least one non-empty matcher')
  return parsed
}

async function writeTexts(out: AnswerStream, texts: readonly string[], limit: number): Promise<boolean> {
  const count = Math.min(texts.length, limit)
  for (let i = 0; i < count; i++) {
    if (i > 0) out.json.raw(',')
    out.json.string(texts[i])
    if (out.full) await out.flush()
  }
  return texts.length > limit
}

async function writeSeries(out: AnswerStream, discovery: Discovery, request: DiscoverRequest, limit: number): Promise<boolean> {
  let count = 0
  for await (const labels of discovery.series(request)) {
    if (count === limit) return true
    if (count++ > 0) out.json.raw(',')
    writeLabels(out.json, labels)
    if (out.full) await out.flush()
  }
  return false
}
