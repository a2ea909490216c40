/** Asks a reader for values of windows by groups, and works them out from its samples. */
import type { Job } from 'svcdb'
import { type AggregateRequest, SAMPLE_STALE } from 'svcdb/lib/columns'

export interface AggregateAnswer {
  /** A line a group, `tag=value,... value value`, with `_` where there is none; groups without any value are left out. 'none': the reader has no aggregations, 'declined': not for this. */
  found: string[] | 'none' | 'declined'
  expected: string[]
}

type Samples = readonly { time: number; value: number; stale: boolean }[]

const job: Job<AggregateRequest, AggregateAnswer> = async (reader, request) => {
  const { windows, window, group, tags, without, maxCells, ...selection } = request
  const { count } = windows
  const expected = new Map<string, number[][]>()
  const set = await reader.samples(selection)
  for await (const { first, starts, times, values, kinds } of set.blocks())
    for (let s = 0; s + 1 < starts.length; s++) {
      const samples = Array.from({ length: starts[s + 1] - starts[s] }, (_, i) => {
        const at = starts[s] + i
        return { time: times[at], value: values[at], stale: kinds?.[at] === SAMPLE_STALE }
      })
      const pairs = set.tags.at(first + s)
      const kept = pairs.filter((_, i) => tags.includes(pairs[i - (i % 2)]) !== without)
      const cells = expected.get(kept.join()) ?? Array.from({ length: count }, () => [])
      expected.set(kept.join(), cells)
      for (const [k, cell] of cells.entries()) {
        const value = windowOf(samples, windows.first + k * windows.interval, request)
        if (value !== undefined) cell.push(value)
      }
    }
  const lines = [...expected].map(([key, cells]) =>
    lineOf(
      key,
      cells.map((cell) => together(cell, group)),
    ),
  )
  return { found: await answerOf(reader, request), expected: lines.filter(hasValue).sort() }
}

export default job

async function answerOf(reader: Parameters<typeof job>[0], request: AggregateRequest): Promise<AggregateAnswer['found']> {
  if (reader.aggregate === undefined) return 'none'
  const set = await reader.aggregate(request)
  if (set === undefined) return 'declined'
  const { groups, values, present } = set
  const { count } = request.windows
  if (values.length !== groups.length * count || present.length !== values.length) throw new Error('there is not a value for each group and window')
  const line = (_: unknown, i: number): string =>
    lineOf(
      groups.at(i).join(),
      Array.from({ length: count }, (_, k) => (present[i * count + k] === 1 ? values[i * count + k] : undefined)),
    )
  return Array.from({ length: groups.length }, line).filter(hasValue).sort()
}

const lineOf = (key: string, values: readonly (number | undefined)[]): string => `${key} ${values.map((value) => value?.toPrecision(10) ?? '_').join(' ')}`
const hasValue = (line: string): boolean => /\d/.test(line.slice(line.indexOf(' ')))

function together(values: readonly number[], group: AggregateRequest['group']): number | undefined {
  if (values.length === 0) return undefined
  const sum = values.reduce((a, b) => a + b, 0)
  return { sum, avg: sum / values.length, min: Math.min(...values), max: Math.max(...values), count: values.length }[group]
}

/** What PromQL gives for the samples in (end - range, end]. */
function windowOf(all: Samples, end: number, { window, windows: { range } }: AggregateRequest): number | undefined {
  const inside = all.filter(({ time }) => time > end - range && time <= end)
  if (window === 'last') return inside.at(-1)?.stale === true ? undefined : inside.at(-1)?.value
  const samples = inside.filter(({ stale }) => !stale)
  const [before, last] = samples.slice(-2)
  if (last === undefined) return undefined
  const counter = window !== 'delta' && window !== 'idelta'
  if (window === 'irate' || window === 'idelta') {
    const change = counter && last.value < before.value ? last.value : last.value - before.value
    return window === 'irate' ? (change * 1000) / (last.time - before.time) : change
  }
  const [first] = samples
  let change = last.value - first.value
  if (counter) for (const [i, { value }] of samples.entries()) if (i > 0 && value < samples[i - 1].value) change += samples[i - 1].value
  const sampled = (last.time - first.time) / 1000
  const average = sampled / (samples.length - 1)
  let toStart = (first.time - end + range) / 1000
  let toEnd = (end - last.time) / 1000
  if (toStart >= average * 1.1) toStart = average / 2
  if (counter && change > 0 && first.value >= 0) toStart = Math.min(toStart, sampled * (first.value / change))
  if (toEnd >= average * 1.1) toEnd = average / 2
  const whole = change * ((sampled + toStart + toEnd) / sampled)
  return window === 'rate' ? whole / (range / 1000) : whole
}
