/**
 * Warnings and infos of one query. The same text is given out once, with the place where it came up last; Prometheus' clients know these
 * texts, so they are kept byte for byte.
 */
import type { Pos } from '../ast.ts'
import type { AnnotationSink } from '../functions/contract.ts'
import { formatFloat, quote } from '../functions/format.ts'
import { lineColumn } from '../parser/parse-error.ts'
import { formatPrecise } from './format-float.ts'

interface Monotonicity {
  count: number
  minTime: number
  maxTime: number
  minBucket: number
  maxBucket: number
  maxDiff: number
}

interface Entry {
  pos: Pos
  monotonicity?: Monotonicity
}

interface AnnotationTexts {
  warnings: string[]
  infos: string[]
}

const FORCED_MONOTONICITY =
  'input to histogram_quantile needed to be fixed for monotonicity (see https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile)'

export class Annotations implements AnnotationSink {
  private readonly warnings = new Map<string, Entry>()
  private readonly infos = new Map<string, Entry>()

  warning(text: string, pos: Pos): void {
    this.warnings.set(text, { pos })
  }

  info(text: string, pos: Pos): void {
    this.infos.set(text, { pos })
  }

  forcedMonotonicity(metricName: string, pos: Pos, time: number, minBucket: number, maxBucket: number, maxDiff: number): void {
    const text = metricName === '' ? FORCED_MONOTONICITY : `${FORCED_MONOTONICITY} for metric name ${quote(metricName)}`
    const known = this.infos.get(text)?.monotonicity
    const monotonicity =
      known === undefined
        ? { count: 1, minTime: time, maxTime: time, minBucket, maxBucket, maxDiff }
        : {
            count: known.count + 1,
            minTime: Math.min(known.minTime, time),
            maxTime: Math.max(known.maxTime, time),
            minBucket: Math.min(known.minBucket, minBucket),
            maxBucket: Math.max(known.maxBucket, maxBucket),
            maxDiff: Math.max(known.maxDiff, maxDiff),
          }
    this.infos.set(text, { pos, monotonicity })
  }

  get empty(): boolean {
    return this.warnings.size + this.infos.size === 0
  }

  /** Of each what it says, without its place; undefined where one counts the samples it is about. */
  get keys(): string[] | undefined {
    const keys: string[] = []
    for (const [kind, entries] of [
      ['warning', this.warnings],
      ['info', this.infos],
    ] as const) {
      for (const [text, { monotonicity }] of entries) {
        if (monotonicity !== undefined) return undefined
        keys.push(`${kind} ${text}`)
      }
    }
    return keys
  }

  /** Takes over those of a part of the query, which are no others' that it has. */
  takeOver({ warnings, infos }: Annotations): void {
    for (const [text, entry] of warnings) this.warnings.set(text, entry)
    for (const [text, entry] of infos) this.infos.set(text, entry)
  }

  /**
   * As the HTTP API gives them out.
   * @param limit of each kind; what is over it is counted in one more text. 0 = all.
   */
  texts(query: string, limit: number): AnnotationTexts {
    return { warnings: list(this.warnings, 'warning', query, limit), infos: list(this.infos, 'info', query, limit) }
  }
}

function list(entries: ReadonlyMap<string, Entry>, kind: 'warning' | 'info', query: string, limit: number): string[] {
  const out: string[] = []
  for (const [text, entry] of entries) {
    if (limit > 0 && out.length === limit) break
    const more = entry.monotonicity === undefined ? '' : monotonicityText(entry.monotonicity)
    out.push(`PromQL ${kind}: ${text}${more} (${lineColumn(query, entry.pos.start)})`)
  }
  if (out.length < entries.size) out.push(`${entries.size - out.length} more ${kind} annotations omitted`)
  return out
}

function monotonicityText(m: Monotonicity): string {
  const buckets = `from buckets ${formatFloat(m.minBucket)} to ${formatFloat(m.maxBucket)}`
  return `, ${buckets}, with a max diff of ${formatPrecise(m.maxDiff, 2)}, over ${m.count} samples from ${seconds(m.minTime)} to ${seconds(m.maxTime)}`
}

function seconds(ms: number): string {
  return `${new Date(Math.trunc(ms / 1000) * 1000).toISOString().slice(0, 19)}Z`
}
