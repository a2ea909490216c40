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
import { sortTexts } from './text-order.ts'

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

/** A line of the answer without its value. */
interface Line {
  metric: string
  series: string
}

/** Value and time of each series, by metric. */
type Found = Map<string, Map<string, string>>

/** @param room is asked while lines gather, with their bytes. @throws SvcError bad_data for selectors that do not parse, execution for an answer that is too large. */
export async function answerFederate(source: SampleSource, args: FederateArgs, io: JobIo, room: (bytes: number) => Promise<void> | undefined): Promise<void> {
  const pacer = new Pacer(io.signal)
  const found: Found = new Map()
  let bytes = 0
  let count = 0
  for (const matchers of selectorsOf(args.selectors, args.parseLimits)) {
    const { labels, blocks } = await source.select({ matchers, after: args.time - args.lookbackMs, upTo: args.time, newestOnly: true })
    for await (const { first, starts, times, values, kinds } of blocks()) {
      for (let i = 0; i + 1 < starts.length; i++) {
        const at = starts[i + 1] - 1
        // Neither what has gone stale nor a native histogram, which the text format cannot say.
        if (at < starts[i] || (kinds !== undefined && kinds[at] !== SAMPLE_FLOAT)) continue
        const { metric, series } = lineOf(labels.at(first + i), args.utf8)
        let own = found.get(metric)
        if (own === undefined) found.set(metric, (own = new Map()))
        // It may match several selectors.
        if (own.has(series)) continue
        const sample = `${formatFloat(values[at])} ${times[at]}\n`
        own.set(series, sample)
        bytes += series.length + sample.length
        count++
        if (bytes > args.maxResultBytes) throw tooLarge(args.maxResultBytes)
        if (pacer.due(1)) await pacer.pause()
      }
      await room(bytes + count * LINE_BYTES)
    }
  }
  await write(found, io, pacer)
}

/** Metric by metric, by name; series of one as the storage has them, as Prometheus gives them. */
async function write(found: Found, io: JobIo, pacer: Pacer): Promise<void> {
  let text = ''
  const emit = async (): Promise<void> => {
    await io.emit(Uint8Array.from(Buffer.from(text)))
    text = ''
  }
  for (const metric of sortTexts([...found.keys()])) {
    text += `# TYPE ${metric} untyped\n`
    for (const [series, sample] of found.get(metric) as Map<string, string>) {
      text += `${series} ${sample}`
      if (text.length >= CHUNK_BYTES) await emit()
      if (pacer.due(1)) await pacer.pause()
    }
  }
  await emit()
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
  return { metric, series: `${metric.startsWith('"') ? '' : metric}{${texts.join(',')}}` }
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

function tooLarge(maxBytes: number): Error {
  return apiError('execution', `cannot answer: the series that match take more than ${maxBytes} bytes; narrow match[], or raise server.prom_max_result_bytes`)
}
