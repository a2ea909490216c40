/** The newest samples of the series that selectors match, in the text format that a Prometheus scrapes: federation. */
import type { JobIo } from 'svcdb'
import { selectorsOf } from './answer-discovery.ts'
import { Pacer } from './eval/context.ts'
import type { SampleSource } from './eval/source.ts'
import { SAMPLE_FLOAT } from './eval/value.ts'
import { formatFloat } from './functions/format.ts'
import { apiError } from './http/api-error.ts'
import { type Labels, METRIC_NAME } from './labels.ts'
import type { ParseLimits } from './parser/cursor.ts'

export interface FederateArgs {
  namespace: string
  /** The texts of `match[]`. */
  selectors: string[]
  parseLimits: ParseLimits
  /** Milliseconds: the moment of asking, and how far a sample may lie before it. */
  time: number
  lookbackMs: number
  /** Names with other characters than letters, digits and underscores come quoted; else with underscores. */
  utf8: boolean
  /** All of it is answered, or nothing: to who scrapes, a series that is left out has ended. */
  maxResultBytes: number
}

/** Bytes that are handed over at a time. */
const CHUNK_BYTES = 256 * 1024
/** What a line takes beside its text, about. */
const LINE_BYTES = 100
const METRIC = /^[A-Za-z_:][A-Za-z0-9_:]*$/
const LABEL = /^[A-Za-z_][A-Za-z0-9_]*$/
/** What a Prometheus that scrapes this must not take for its own. */
const INSTANCE = 'instance'

/** A line of the answer without its value, and that. */
interface Line {
  metric: string
  /** Of equal ones the first is written: a series may match several selectors. */
  series: string
  rest: string
}

/** @param room is asked while lines gather, with their bytes. @throws SvcError bad_data for selectors that do not parse, execution for an answer that is too large. */
export async function answerFederate(source: SampleSource, args: FederateArgs, io: JobIo, room: (bytes: number) => Promise<void> | undefined): Promise<void> {
  const pacer = new Pacer(io.signal)
  const lines: Line[] = []
  let bytes = 0
  for (const matchers of selectorsOf(args.selectors, args.parseLimits)) {
    const { labels, blocks } = await source.select({ matchers, after: args.time - args.lookbackMs, upTo: args.time, newestOnly: true })
    for await (const { first, starts, times, values, kinds } of blocks()) {
      for (let i = 0; i + 1 < starts.length; i++) {
        const at = starts[i + 1] - 1
        // Neither what has gone stale nor a native histogram, which the text format cannot say.
        if (at < starts[i] || (kinds !== undefined && kinds[at] !== SAMPLE_FLOAT)) continue
        const line = lineOf(labels.at(first + i), args.utf8)
        line.rest = `${formatFloat(values[at])} ${times[at]}\n`
        bytes += line.series.length + line.rest.length
        if (bytes > args.maxResultBytes) throw tooLarge(args.maxResultBytes)
        lines.push(line)
        if (pacer.due(1)) await pacer.pause()
      }
      await room(bytes + lines.length * LINE_BYTES)
    }
  }
  lines.sort(byMetric)
  await write(lines, io)
}

async function write(lines: readonly Line[], io: JobIo): Promise<void> {
  let text = ''
  let metric: string | undefined
  let series: string | undefined
  for (const line of lines) {
    if (line.series === series) continue
    if (line.metric !== metric) text += `# TYPE ${line.metric} untyped\n`
    text += `${line.series} ${line.rest}`
    ;({ metric, series } = line)
    if (text.length < CHUNK_BYTES) continue
    await io.emit(Uint8Array.from(Buffer.from(text)))
    text = ''
  }
  await io.emit(Uint8Array.from(Buffer.from(text)))
}

function lineOf(labels: Labels, utf8: boolean): Line {
  const { pairs } = labels
  const name = labels.get(METRIC_NAME)
  const metric = METRIC.test(name) ? name : utf8 ? `"${escaped(name)}"` : escapedName(name)
  const texts = metric.startsWith('"') ? [metric] : []
  const taken = new Set<string>()
  for (let i = 0; i < pairs.length; i += 2) {
    const label = pairs[i]
    if (label === METRIC_NAME) continue
    texts.push(`${LABEL.test(label) ? label : utf8 ? `"${escaped(label)}"` : labelName(label, labels, taken)}="${escaped(pairs[i + 1])}"`)
  }
  if (!labels.has(INSTANCE)) texts.push(`${INSTANCE}=""`)
  return { metric, series: `${metric.startsWith('"') ? '' : metric}{${texts.join(',')}}`, rest: '' }
}

const escaped = (text: string): string => text.replace(/[\\"\n]/g, (char) => (char === '\n' ? '\\n' : `\\${char}`))
const escapedName = (name: string): string => name.replace(/[^A-Za-z0-9_:]/gu, '_').replace(/^\d/, '_')

/** One that the series has no other label of: a Prometheus refuses all of an answer in which a label comes twice. @param taken names that others of its labels have got. */
function labelName(label: string, labels: Labels, taken: Set<string>): string {
  let name = escapedName(label).replaceAll(':', '_')
  while (labels.has(name) || taken.has(name)) name += '_'
  taken.add(name)
  return name
}

function byMetric(a: Line, b: Line): number {
  if (a.metric !== b.metric) return a.metric < b.metric ? -1 : 1
  return a.series < b.series ? -1 : a.series > b.series ? 1 : 0
}

function tooLarge(maxBytes: number): Error {
  return apiError('execution', `cannot answer: the series that match take more than ${maxBytes} bytes; narrow match[], or raise server.prom_max_result_bytes`)
}
