/**
 * Random data for queries: gauges, counters that are reset, classic and native histograms, with jitter, gaps and stale markers.
 *
 * Values of counters and histograms are multiples of a quarter, so that their sums do not depend on the order of adding up.
 */
import type { Random } from '../../../kernel/lib/random/index.ts'
import type { HistogramSample, Sample, Series, Span } from './samples.ts'

export const INTERVAL_MS = 15_000
export const SAMPLES = 160
const JOBS = ['api', 'web']
const ZONES = ['a', 'b', 'ä']
const CLASSIC_BOUNDS = ['0.1', '0.5', '1', '2.5', '+Inf']
const CUSTOM_BOUNDS = [
  [0.5, 1, 2, 4],
  [0.5, 1, 2, 4],
  [1, 2, 8],
]
const RESET = 0.03

const whole = (random: Random, below: number): number => Math.floor(random() * below)

/** Times from `start` on: on the grid, or a little beside it as scrapes are, and with gaps before which there may be a stale marker. */
function* times(random: Random, start: number): Generator<{ t: number; stale: boolean }> {
  const jitter = random() < 0.5 ? 0 : 400
  const gaps = random() < 0.5 ? 0 : 0.03
  let gap = 0
  for (let i = 0; i < SAMPLES; i++) {
    const t = start + i * INTERVAL_MS + (jitter === 0 ? 0 : whole(random, jitter))
    if (gap > 0) {
      gap--
      continue
    }
    const stale = random() < gaps
    if (stale || random() < gaps) gap = 1 + whole(random, 30)
    yield { t, stale: stale && gap > 0 }
  }
}

function floats(random: Random, start: number, next: () => number): Sample[] {
  const out: Sample[] = []
  for (const { t, stale } of times(random, start)) out.push({ t, value: stale ? 'stale' : next() })
  return out
}

function gauge(random: Random, start: number): Sample[] {
  let level = whole(random, 2000) / 16 - 60
  const odd = random() < 0.25 ? 0.02 : 0
  return floats(random, start, () => {
    level += (random() - 0.5) * 16
    if (random() < odd) return [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0][whole(random, 4)]
    return level
  })
}

function counter(random: Random, start: number): Sample[] {
  let total = whole(random, 400) / 4
  return floats(random, start, () => {
    if (random() < RESET) total = 0
    else if (random() < 0.8) total += whole(random, 100) / 4
    return total
  })
}

/** `_bucket`, `_count` and `_sum` of one classic histogram. */
function classic(random: Random, start: number, name: string, labels: Record<string, string>): Series[] {
  const buckets = CLASSIC_BOUNDS.map((le) => ({ labels: { __name__: `${name}_bucket`, ...labels, le }, samples: [] as Sample[] }))
  const count: Series = { labels: { __name__: `${name}_count`, ...labels }, samples: [] }
  const sum: Series = { labels: { __name__: `${name}_sum`, ...labels }, samples: [] }
  const totals = CLASSIC_BOUNDS.map(() => 0)
  let seconds = 0
  for (const { t, stale } of times(random, start)) {
    if (random() < RESET) {
      totals.fill(0)
      seconds = 0
    }
    const added = CLASSIC_BOUNDS.map(() => whole(random, 5))
    for (const [i, more] of added.entries()) {
      seconds += more * (i + 1) * 0.25
      for (let k = i; k < totals.length; k++) totals[k] += more
    }
    for (const [i, { samples }] of buckets.entries()) samples.push({ t, value: stale ? 'stale' : totals[i] })
    count.samples.push({ t, value: stale ? 'stale' : totals[totals.length - 1] })
    sum.samples.push({ t, value: stale ? 'stale' : seconds })
  }
  return [...buckets, count, sum]
}

/** Spans over the indexes of an array whose buckets are not empty, or which a run of few empty buckets joins. */
function spansOf(counts: number[], first: number): { spans: Span[]; kept: number[] } {
  const spans: Span[] = []
  const kept: number[] = []
  let end = 0
  for (let i = 0; i < counts.length; i++) {
    if (counts[i] === 0) continue
    const index = first + i
    const last = spans.at(-1)
    if (last !== undefined && index === end) last.length++
    else spans.push({ offset: last === undefined ? index : index - end, length: 1 })
    end = index + 1
    kept.push(counts[i])
  }
  return { spans, kept }
}

interface HistogramKind {
  gauge?: boolean
  custom?: boolean
  integer?: boolean
  negative?: boolean
}

/** A native histogram that grows, is reset, and changes its resolution or its bounds at times. */
function native(random: Random, start: number, kind: HistogramKind): Sample[] {
  const width = kind.custom ? 5 : 10
  const positive = new Array<number>(width).fill(0)
  const negative = new Array<number>(kind.negative ? 6 : 0).fill(0)
  let schema = kind.custom ? -53 : whole(random, 5) - 1
  let bounds = kind.custom ? CUSTOM_BOUNDS[whole(random, CUSTOM_BOUNDS.length)] : []
  let first = whole(random, 9) - 4
  let zeros = 0
  const out: Sample[] = []
  const restart = (): void => {
    positive.fill(0)
    negative.fill(0)
    zeros = 0
  }
  for (const { t, stale } of times(random, start)) {
    if (stale) {
      out.push({ t, value: 'stale' })
      continue
    }
    if (kind.gauge || random() < RESET) restart()
    if (random() < 0.02) {
      restart()
      if (kind.custom) bounds = CUSTOM_BOUNDS[whole(random, CUSTOM_BOUNDS.length)]
      else schema = whole(random, 5) - 1
      first = whole(random, 9) - 4
    }
    for (const side of [positive, negative]) for (let i = 0; i < side.length; i++) if (random() < 0.3) side[i] += 1 + whole(random, 4)
    if (!kind.custom && random() < 0.3) zeros += whole(random, 3)
    if (kind.custom) for (let i = bounds.length + 1; i < positive.length; i++) positive[i] = 0
    // Whether a side without observations has buckets depends on how Prometheus has packed it, and the zero bucket's bounds on that.
    for (const side of [positive, negative]) if (side.length > 0 && !side.some((count) => count > 0)) side[0] = 1
    const up = spansOf(positive, kind.custom ? 0 : first)
    const down = spansOf(negative, first)
    const count = [...up.kept, ...down.kept].reduce((a, b) => a + b, zeros)
    const value: HistogramSample = {
      schema,
      count,
      sum: count === 0 ? 0 : whole(random, 50) / 4 + count * 1.25,
      zeroThreshold: kind.custom ? 0 : 0.001,
      zeroCount: zeros,
      positiveSpans: up.spans,
      positive: up.kept,
      negativeSpans: down.spans,
      negative: down.kept,
      customBounds: bounds,
      gauge: kind.gauge === true,
      integer: kind.integer === true,
    }
    out.push({ t, value })
  }
  return out
}

/** Floats for a while, then histograms, and so on. */
function alternating(random: Random, start: number): Sample[] {
  const [floats, histograms] = [counter(random, start), native(random, start, { gauge: true })]
  const turn = (1 + whole(random, 40)) * INTERVAL_MS
  const isFloats = ({ t }: Sample) => Math.floor((t - start) / turn) % 2 === 0
  return [...floats.filter(isFloats), ...histograms.filter((sample) => !isFloats(sample))].sort((a, b) => a.t - b.t)
}

/** Series whose first samples lie at `start` or a little later. @param mixed with a metric of both floats and native histograms. */
export function randomData(random: Random, start: number, mixed = false): Series[] {
  const out: Series[] = []
  const put = (__name__: string, labels: Record<string, string>, samples: Sample[]) => out.push({ labels: { __name__, ...labels }, samples })
  for (const job of JOBS) {
    for (let i = 0; i < 3; i++) {
      const place = { job, instance: `host-${i}` }
      put('temperature', { ...place, zone: ZONES[whole(random, ZONES.length)] }, gauge(random, start))
      if (random() < 0.8) put('humidity', place, gauge(random, start))
      put('requests_total', { ...place, code: '200' }, counter(random, start))
      if (random() < 0.8) put('requests_total', { ...place, code: '500' }, counter(random, start))
      if (i < 2) out.push(...classic(random, start, 'latency', place))
      put('sizes', place, native(random, start, { integer: i !== 1, negative: i === 2 }))
      put('depth', place, native(random, start, { gauge: true, negative: i === 0 }))
      put('waits', place, native(random, start, { custom: true, integer: random() < 0.5 }))
      const version = `1.${whole(random, 3)}`
      put(
        'target_info',
        { ...place, version, region: ZONES[whole(random, ZONES.length)] },
        floats(random, start, () => 1),
      )
    }
  }
  if (mixed) {
    put('mixed', { job: 'api', instance: 'host-0' }, gauge(random, start))
    put('mixed', { job: 'api', instance: 'host-1' }, native(random, start, { gauge: true }))
    for (const job of JOBS) put('mixed', { job, instance: 'host-2' }, alternating(random, start))
  }
  // As senders with type-and-unit-labels name them: nothing of what is computed from both has these labels.
  for (const job of JOBS) {
    put('volume', { job, __type__: 'gauge', __unit__: 'bytes' }, gauge(random, start))
    put('free', { job, __type__: random() < 0.5 ? 'gauge' : 'counter', __unit__: 'ratio' }, gauge(random, start))
  }
  put('limit', {}, gauge(random, start))
  for (const room of ['1', '2.b']) put('büro.temp', { 'raum.nr': room, job: 'api' }, gauge(random, start))
  return out
}
