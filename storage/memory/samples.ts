/** Reader.samples and Reader.activeSeries over frozen series, plainly: what the embedded engine's answers are held against. */
import type { FieldInfo } from 'svcdb'
import { SAMPLE_HISTOGRAM, SAMPLE_STALE, type SampleRows, type SampleSet, type SeriesSet, type TagColumn, type TagSets } from 'svcdb/lib/columns'
import { isStaleHistogram } from 'svcdb/lib/histogram'
import type { Value } from './rows.ts'

const STALE_BITS = 0x7ff0000000000002n
const NS_PER_MS = 1_000_000n

interface Series {
  number: number
  tags: Record<string, string>
}

/** @param points of each series, ascending. */
export function sampleSet(series: readonly Series[], field: FieldInfo, points: readonly (readonly [bigint, Value])[][], newestOnly: boolean): SampleSet {
  const lists = points.map((list) => lastOfEachMillisecond(list).slice(newestOnly ? -1 : 0))
  return {
    ...seriesSet(series),
    async *blocks() {
      yield rowsOf(field, lists)
    },
  }
}

export function seriesSet(series: readonly Series[]): SeriesSet {
  return { series: Int32Array.from(series, ({ number }) => number), tags: new PlainTags(series.map(({ tags }) => tags)) }
}

class PlainTags implements TagSets {
  readonly length: number
  private readonly list: readonly Record<string, string>[]

  constructor(list: readonly Record<string, string>[]) {
    this.list = list
    this.length = list.length
  }

  at(i: number): readonly string[] {
    return Object.entries(this.list[i])
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .flat()
  }

  keys(): readonly string[] {
    return [...new Set(this.list.flatMap(Object.keys))]
  }

  column(key: string): TagColumn {
    const values = this.list.map((tags) => (Object.hasOwn(tags, key) ? tags[key] : undefined))
    const texts = [...new Set(values)].filter((value) => value !== undefined)
    return { codes: Int32Array.from(values, (value) => (value === undefined ? -1 : texts.indexOf(value))), texts }
  }
}

function lastOfEachMillisecond(points: readonly (readonly [bigint, Value])[]): [number, Value][] {
  const out = new Map<number, Value>()
  for (const [time, value] of points) out.set(Number((time - (((time % NS_PER_MS) + NS_PER_MS) % NS_PER_MS)) / NS_PER_MS), value)
  return [...out]
}

function rowsOf(field: FieldInfo, lists: readonly [number, Value][][]): SampleRows {
  const all = lists.flat()
  const starts = new Int32Array(lists.length + 1)
  for (const [i, list] of lists.entries()) starts[i + 1] = starts[i] + list.length
  const rows: SampleRows = { first: 0, starts, times: Float64Array.from(all, ([time]) => time), values: new Float64Array(all.length) }
  for (const [i, [, value]] of all.entries()) {
    if (value instanceof Uint8Array) {
      rows.kinds ??= new Uint8Array(all.length)
      rows.histograms ??= new Array(all.length)
      rows.kinds[i] = isStaleHistogram(value) ? SAMPLE_STALE : SAMPLE_HISTOGRAM
      rows.histograms[i] = value
    } else if (field.type === 'float64' && typeof value === 'bigint') {
      new BigUint64Array(rows.values.buffer)[i] = value
      if (value !== STALE_BITS) continue
      rows.kinds ??= new Uint8Array(all.length)
      rows.kinds[i] = SAMPLE_STALE
    } else rows.values[i] = Number(value) / 10 ** (field.scale ?? 0)
  }
  return rows
}
