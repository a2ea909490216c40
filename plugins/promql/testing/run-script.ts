/** Answers a script's questions with the evaluator, in the form that the script expects them. */
import { ExecutionError, ExpressionError } from '../errors.ts'
import { Annotations } from '../eval/annotations.ts'
import { Budget } from '../eval/context.ts'
import { evaluate } from '../eval/evaluate.ts'
import { ABSENT, FLOAT, type MatrixValue, SAMPLE_HISTOGRAM, type StringValue, type Value, type VectorValue } from '../eval/value.ts'
import { formatFloat } from '../functions/format.ts'
import { parse } from '../parser/parse.ts'
import { ParseError } from '../parser/parse-error.ts'
import { parseLabels } from './memory-source.ts'
import { frozen } from './run-query.ts'
import type { Expectation, Question } from './script.ts'

const LOOKBACK_MS = 300_000
const DEFAULT_STEP_MS = 60_000
const MEMORY_BYTES = 1 << 28
const TOLERANCE = 1e-9

export type Result = Omit<Expectation, 'inOrder'>

export async function ask({ query, startMs, endMs, stepMs, source }: Question): Promise<Result> {
  const annotations = new Annotations()
  const result: Result = { series: [], warnings: [], infos: [] }
  try {
    const steps = { start: startMs, interval: stepMs, count: stepMs === 0 ? 1 : Math.floor((endMs - startMs) / stepMs) + 1 }
    const value = await evaluate(frozen(parse(query)), steps, {
      source,
      lookbackMs: LOOKBACK_MS,
      defaultStepMs: DEFAULT_STEP_MS,
      budget: new Budget(MEMORY_BYTES),
      annotations,
      signal: new AbortController().signal,
      query: { start: startMs, end: endMs, step: stepMs },
    })
    // A scalar over a range is a series without labels.
    if (value.type === 'scalar' && stepMs !== 0) result.series.push(['{}', Array.from(value.values, formatFloat)])
    else await show(value, result)
  } catch (error) {
    if (!(error instanceof ParseError || error instanceof ExecutionError || error instanceof ExpressionError)) throw error
    result.error = error.message
  }
  const { warnings, infos } = annotations.texts(query, 0)
  return { ...result, warnings, infos }
}

async function show(value: Value | MatrixValue | StringValue, result: Result): Promise<void> {
  if (value.type === 'string') result.string = value.value
  else if (value.type === 'scalar') result.scalar = Array.from(value.values, formatFloat)
  else if (value.type === 'vector') showVector(value, result)
  else {
    for await (const { first, starts, times, values, kinds, histograms } of value.blocks()) {
      for (let i = 0; i + 1 < starts.length; i++) {
        const points: string[] = []
        for (let at = starts[i]; at < starts[i + 1]; at++) {
          points.push(`${kinds?.[at] === SAMPLE_HISTOGRAM ? histograms?.[at] : formatFloat(values[at])}@${times[at]}`)
        }
        if (points.length > 0) result.series.push([JSON.stringify(value.labels.at(first + i)), points])
      }
    }
  }
}

function showVector({ labels, steps, values, kinds, histograms }: VectorValue, result: Result): void {
  for (let i = 0; i < labels.length; i++) {
    const points = Array.from({ length: steps }, (_, t) => {
      const cell = i * steps + t
      if (kinds[cell] === ABSENT) return '_'
      return kinds[cell] === FLOAT ? formatFloat(values[cell]) : String(histograms?.[cell])
    })
    if (points.some((point) => point !== '_')) result.series.push([JSON.stringify(labels.at(i)), points])
  }
}

/** @returns what differs, undefined when nothing does. */
export function difference(expected: Expectation, result: Result): string | undefined {
  if (expected.error !== result.error) return `error: ${result.error}`
  if (!same(expected.warnings.toSorted(), result.warnings.toSorted())) return `warnings: ${JSON.stringify(result.warnings)}`
  if (!same(expected.infos.toSorted(), result.infos.toSorted())) return `infos: ${JSON.stringify(result.infos)}`
  if (expected.string !== result.string) return `string: ${result.string}`
  if (!samePoints(expected.scalar ?? [], result.scalar ?? [])) return `scalar: ${result.scalar?.join(' ')}`
  const text = () => result.series.map(([labels, points]) => `${labels} ${points.join(' ')}`).join('\n')
  if (expected.series.length !== result.series.length) return `${result.series.length} series:\n${text()}`
  const left = [...result.series]
  for (const [labels, points] of expected.series) {
    const key = JSON.stringify(parseLabels(labels))
    const at = expected.inOrder ? 0 : left.findIndex(([other]) => other === key)
    const [found] = at < 0 ? [] : left.splice(at, 1)
    if (found?.[0] !== key || !samePoints(points, found[1])) return `series other than ${labels}:\n${text()}`
  }
  return undefined
}

function same(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((text, i) => text === b[i])
}

function samePoints(expected: readonly string[], actual: readonly string[]): boolean {
  return expected.length === actual.length && expected.every((point, i) => close(point, actual[i]))
}

/** Texts of points whose numbers differ by rounding only. */
function close(expected: string, actual: string): boolean {
  if (expected === actual) return true
  const numbers = /[-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|Inf|NaN)/g
  if (expected.replace(numbers, '#') !== actual.replace(numbers, '#')) return false
  const [a, b] = [expected, actual].map((text) => (text.match(numbers) ?? []).map((n) => Number(n.replace('Inf', 'Infinity'))))
  // Less, and not as much: infinity is as much as a share of infinity.
  const near = (x: number, y: number): boolean => Object.is(x, y) || x === y || Math.abs(x - y) < TOLERANCE * Math.max(Math.abs(x), Math.abs(y))
  return a.length === b.length && a.every((n, i) => near(n, b[i]))
}
