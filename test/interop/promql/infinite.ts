/**
 * Prometheus 3.15 weighs the sample above with nothing where a quantile falls on a sample, and nothing times infinity is NaN; 3.16 and svc have that sample.
 * Which queries that is about.
 */
import { type Answer, ask, type Question } from './compare.ts'

const QUANTILE = /\b(quantile|quantile_over_time|mad_over_time)\b\s*(?:(?:by|without)\s*\([^()]*\)\s*)?\(/gi
/** So that no step within a subquery is left out. Seconds. */
const FINE_STEP = 1

/** Where an expression ends that begins at `from`: before the comma or the bracket that is not its own. */
function endOf(query: string, from: number): number {
  let depth = 0
  for (let i = from; i < query.length; i++) {
    const sign = query[i]
    if (sign === '"' || sign === "'" || sign === '`') {
      do i++
      while (i < query.length && query[i] !== sign && !(sign !== '`' && query[i] === '\\' && ++i === query.length))
    } else if ('([{'.includes(sign)) depth++
    else if (')]}'.includes(sign) && depth-- === 0) return i
    else if (sign === ',' && depth === 0) return i
  }
  return query.length
}

/** For each quantile of the query, queries of one series for each sample that is the largest or the smallest of those it is taken of. */
export function extremesOf(query: string): string[] {
  const out: string[] = []
  for (const { index, 0: head, 1: name } of query.matchAll(QUANTILE)) {
    const first = endOf(query, index + head.length)
    const of = name.toLowerCase() === 'mad_over_time' ? query.slice(index + head.length, first) : query.slice(first + 1, endOf(query, first + 1))
    if (name.toLowerCase() === 'quantile') out.push(of)
    else out.push(`max_over_time(${of})`, `min_over_time(${of})`)
  }
  return out
}

const hasInfinity = ({ data }: Answer): boolean => /"[+-]Inf"/.test(JSON.stringify(data?.result ?? []))

/** Whether a quantile of the query is taken of samples one of which is infinite, at the time it is asked for or at any of the data. */
export async function takesQuantileOfInfinity(url: string, { query, ...when }: Question, start: number, end: number): Promise<boolean> {
  for (const extreme of extremesOf(query))
    for (const at of [when, { start, end, step: FINE_STEP }]) if (hasInfinity(await ask(url, { query: extreme, ...at }))) return true
  return false
}
