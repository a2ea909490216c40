/** A query beside the data: parses, evaluates, writes the answer of the HTTP API. */
import type { JobIo } from 'svcdb'
import { TooManySamplesError } from 'svcdb/lib/columns'
import { traced } from 'svcdb/lib/trace'
import type { Expr } from './ast.ts'
import { ExecutionError, ExpressionError, QueryStoppedError } from './errors.ts'
import { Annotations } from './eval/annotations.ts'
import { Budget } from './eval/context.ts'
import { isRange } from './eval/range-functions.ts'
import type { AggregateSelection, AggregateSelectRequest, SampleSource, Selection, SelectRequest } from './eval/source.ts'
import { unwrap } from './eval/unwrap.ts'
import type { SampleBlock, Steps } from './eval/value.ts'
import { AnswerStream } from './http/answer-stream.ts'
import { apiError, invalidParameter } from './http/api-error.ts'
import { writeResult } from './http/result-json.ts'
import { evaluateSteps } from './kept-steps.ts'
import type { ParseLimits } from './parser/cursor.ts'
import { ParseError } from './parser/parse-error.ts'
import { ParsedQueries } from './parser/parsed-queries.ts'

export interface QueryArgs {
  namespace: string
  query: string
  parseLimits: ParseLimits
  /** An instant query has one step and interval 0. */
  steps: Steps
  /** Milliseconds; the last step may not reach it, `@ end()` does. */
  end: number
  lookbackMs: number
  /** Step of subqueries that name none. */
  defaultStepMs: number
  /** Series of the answer. */
  seriesLimit: number
  maxResultBytes: number
  /** Of values that are held at a time; 0 = what all queries of the thread may hold. */
  memoryBytes: number
  /** The parameter `stats`; '' = none wanted. */
  stats: string
}

export interface QueryOutcome {
  truncated: boolean
}

export const TRUNCATED = 'results truncated due to limit'
/** Warnings and infos of an answer, of each kind; what is over it is counted in one more. */
const MAX_ANNOTATIONS = 10

/** One a thread. */
const queries = new ParsedQueries()

/** @throws SvcError with the API's error type for what the caller can mend. */
export async function answerQuery(source: SampleSource, args: QueryArgs, io: JobIo, budget = new Budget(args.memoryBytes)): Promise<QueryOutcome> {
  try {
    return await answer(source, args, io, budget)
  } catch (error) {
    if (error instanceof ExecutionError || error instanceof TooManySamplesError) throw apiError('execution', error.message, error)
    if (error instanceof ExpressionError) throw invalidParameter('query', error.textIn(args.query))
    if (error instanceof QueryStoppedError) throw apiError(error.reason, error.message, error)
    throw error
  }
}

async function answer(source: SampleSource, args: QueryArgs, io: JobIo, budget: Budget): Promise<QueryOutcome> {
  const { query, steps, lookbackMs, defaultStepMs } = args
  const started = performance.now()
  const instant = steps.interval === 0
  const expr = traced('parse', () => parsed(query, args.parseLimits))
  if (!instant) requireSteps(expr)
  const annotations = new Annotations()
  const counted = args.stats === '' ? undefined : new CountedSource(source)
  const prepared = performance.now()
  const value = await traced('evaluate', () =>
    evaluateSteps(
      expr,
      steps,
      {
        source: counted ?? source,
        lookbackMs,
        defaultStepMs,
        budget,
        annotations,
        signal: io.signal,
        query: { start: steps.start, end: args.end, step: steps.interval },
      },
      io.partial,
    ),
  )
  const evaluated = performance.now()
  const out = new AnswerStream(io, args.maxResultBytes)
  out.json.raw('{"status":"success","data":')
  const { truncated } = await traced('write the answer', () => writeResult(out, value, steps, instant, args.seriesLimit))
  if (counted !== undefined) out.json.raw(`,"stats":${statistics(started, prepared, evaluated, counted.samples, budget.peak)}`)
  out.json.raw('}')
  const { warnings, infos } = annotations.texts(query, MAX_ANNOTATIONS)
  if (truncated) warnings.push(TRUNCATED)
  const deprecated = deprecatedStats(args.stats)
  if (deprecated !== undefined) warnings.push(deprecated)
  await out.end(warnings, infos)
  return { truncated }
}

/** @throws bad_data in the words of Prometheus. */
export function parsed(query: string, limits: ParseLimits, refusal = (text: string): Error => invalidParameter('query', text)): Expr {
  try {
    return queries.get(query, limits)
  } catch (error) {
    if (error instanceof ParseError) throw refusal(error.message)
    throw error
  }
}

function requireSteps(expr: Expr): void {
  const plain = unwrap(expr)
  const type = plain.kind === 'string' ? 'string' : isRange(plain) ? 'range vector' : undefined
  if (type !== undefined) throw invalidParameter('query', `invalid expression type "${type}" for range query, must be Scalar or instant Vector`)
}

/** Counts what the selectors read. */
class CountedSource implements SampleSource {
  samples = 0
  private readonly source: SampleSource
  readonly aggregate?: (request: AggregateSelectRequest) => Promise<AggregateSelection | undefined>

  constructor(source: SampleSource) {
    this.source = source
    if (source.aggregate !== undefined)
      this.aggregate = async (request) => {
        const found = await source.aggregate!(request)
        this.samples += found?.samples ?? 0
        return found
      }
  }

  async select(request: SelectRequest): Promise<Selection> {
    const { labels, blocks } = await this.source.select(request)
    const count = (block: SampleBlock): void => {
      this.samples += block.times.length
    }
    return {
      labels,
      async *blocks() {
        for await (const block of blocks()) {
          count(block)
          yield block
        }
      },
    }
  }
}

/** Bytes that a sample held in memory is counted as, a time and a value. */
export const SAMPLE_BYTES = 16

function statistics(started: number, prepared: number, evaluated: number, samples: number, peakBytes: number): string {
  const seconds = (from: number, to: number): number => Math.round((to - from) * 1e6) / 1e9
  return JSON.stringify({
    timings: {
      evalTotalTime: seconds(prepared, evaluated),
      resultSortTime: 0,
      queryPreparationTime: seconds(started, prepared),
      innerEvalTime: seconds(prepared, evaluated),
      execQueueTime: 0,
      execTotalTime: seconds(started, performance.now()),
    },
    samples: { totalQueryableSamples: samples, samplesRead: samples, peakSamples: Math.ceil(peakBytes / SAMPLE_BYTES) },
  })
}

function deprecatedStats(stats: string): string | undefined {
  if (stats === '' || stats === 'true' || stats === 'all') return undefined
  return `value ${JSON.stringify(stats)} for parameter "stats" is deprecated and will be rejected in the next major release, use "true" or "all"`
}
