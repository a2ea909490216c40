/** What a scraper does: reads the text format of /metrics, and sends it on by remote write with the labels of its target. */
import { compressSync } from 'snappy'
import { type WireSample, type WireSeries, writeRequest } from '../../plugins/remote_write/testing-wire.ts'

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)",?/g

export interface Line {
  name: string
  labels: Record<string, string>
  value: number
}

/** @throws Error for a line that is none. */
export function parseExposition(text: string): Line[] {
  return text
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => {
      const [, name, labels, value] = LINE.exec(line) ?? []
      if (name === undefined) throw new Error(`no line of an exposition: ${line}`)
      const pairs = [...(labels ?? '').matchAll(LABEL)].map(([, label, escaped]) => [label, escaped.replace(/\\(.)/g, (_, one) => (one === 'n' ? '\n' : one))])
      return { name, labels: Object.fromEntries(pairs), value: numberOf(value) }
    })
}

const numberOf = (text: string): number =>
  text === '+Inf' ? Infinity : text === '-Inf' ? -Infinity : text === 'Nan' || text === 'NaN' ? Number.NaN : Number(text)

/** Of one series, in the order of time. */
export interface Samples {
  name: string
  labels: Record<string, string>
  samples: WireSample[]
}

/** A request of remote write 1.0. @param ms of all samples. */
export function requestOf(lines: readonly Line[], target: Record<string, string>, ms: number): Buffer {
  return requestOfSeries(
    lines.map(({ name, labels, value }) => ({ name, labels, samples: [{ ms, value }] })),
    target,
  )
}

export function requestOfSeries(list: readonly Samples[], target: Record<string, string>): Buffer {
  const series = list.map(({ name, labels, samples }): WireSeries => {
    const all = Object.entries({ ...labels, ...target, __name__: name }).sort(([a], [b]) => (a < b ? -1 : 1))
    return { labels: all, samples }
  })
  return Buffer.from(compressSync(Buffer.from(writeRequest(series))))
}

export const REMOTE_WRITE = {
  'content-type': 'application/x-protobuf',
  'content-encoding': 'snappy',
  'x-prometheus-remote-write-version': '0.1.0',
}
