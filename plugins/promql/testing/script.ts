/**
 * Scripts of PromQL: what is loaded, what is asked, and what must come of it.
 *
 *   load 30s
 *     requests{code="200"} 0+10x20 _ stale 7
 *     sizes {{schema:0 sum:5 count:4 buckets:[1 2 1]}}x10
 *   at 5m sum(requests)
 *     {} 100
 *   range 0 5m 1m rate(requests[1m])
 *     {code="200"} _ 0.33 ...
 *
 * Below a question stand the series of its result in any order, or in the order given after a line `in order`; `scalar` or `string` and the
 * value; what is warned of (`warn`, `info`) or refused (`error`). Each `load` begins anew.
 */
import type { SampleSource } from '../eval/source.ts'
import { readDuration, readNumber } from '../parser/numbers.ts'
import { loadSeries } from './series-text.ts'

export interface Question {
  line: number
  source: SampleSource
  query: string
  startMs: number
  endMs: number
  /** 0: an instant query. */
  stepMs: number
  expected: Expectation
}

export interface Expectation {
  inOrder: boolean
  /** Labels, and a text for each point. */
  series: [labels: string, points: string[]][]
  scalar?: string[]
  string?: string
  warnings: string[]
  infos: string[]
  error?: string
}

export function readScript(text: string): Question[] {
  const questions: Question[] = []
  let source: SampleSource | undefined
  const lines = text.split('\n')
  for (let i = 0; i < lines.length; ) {
    const line = i + 1
    const head = lines[i++]
    if (head.trim() === '' || head.startsWith('#')) continue
    const body: string[] = []
    while (i < lines.length && lines[i].startsWith('  ')) body.push(lines[i++].trim())
    const [word, rest] = cut(head)
    if (word === 'load') source = loadSeries(body, milliseconds(rest))
    else if (source !== undefined && (word === 'at' || word === 'range')) {
      questions.push({ line, source, ...timesAndQuery(word, rest), expected: expectation(body) })
    } else throw new Error(`cannot read script line ${line} "${head}": neither load, at nor range`)
  }
  return questions
}

function timesAndQuery(word: 'at' | 'range', text: string): Pick<Question, 'query' | 'startMs' | 'endMs' | 'stepMs'> {
  const [start, afterStart] = cut(text)
  const startMs = milliseconds(start)
  if (word === 'at') return { query: afterStart, startMs, endMs: startMs, stepMs: 0 }
  const [end, afterEnd] = cut(afterStart)
  const [step, query] = cut(afterEnd)
  return { query, startMs, endMs: milliseconds(end), stepMs: milliseconds(step) }
}

function expectation(body: readonly string[]): Expectation {
  const out: Expectation = { inOrder: false, series: [], warnings: [], infos: [] }
  for (const line of body) {
    const [word, rest] = cut(line)
    if (line === 'in order') out.inOrder = true
    else if (word === 'scalar') out.scalar = rest.split(' ')
    else if (word === 'string') out.string = JSON.parse(rest) as string
    else if (word === 'warn') out.warnings.push(rest)
    else if (word === 'info') out.infos.push(rest)
    else if (word === 'error') out.error = rest
    else {
      const split = /^(.*\}|[^\s{]+)\s+(.*)$/.exec(line.replace(/\{\{.*$/, '')) ?? /^(\S+)\s*()$/.exec(line)
      const labels = split === null ? '' : /^([^\s{]*\{(?:"(?:[^"\\]|\\.)*"|[^"}])*\}|[^\s{]+)/.exec(line)?.[0]
      if (!labels) throw new Error(`cannot read expected series "${line}": it does not begin with labels`)
      out.series.push([labels, points(line.slice(labels.length))])
    }
  }
  return out
}

/** Split at spaces, but for those inside the braces of a histogram. */
export function points(text: string): string[] {
  return text.match(/\{[^}]*\}|\S+/g) ?? []
}

function cut(text: string): [first: string, rest: string] {
  const [, first, rest] = /^(\S*)\s*(.*)$/.exec(text) as RegExpExecArray
  return [first, rest]
}

function milliseconds(text: string): number {
  const seconds = /[a-z]/.test(text) ? readDuration(text) : readNumber(text)
  if (typeof seconds === 'string') throw new Error(`cannot read time "${text}": ${seconds}`)
  return seconds * 1000
}
