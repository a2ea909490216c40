/** What a soak has measured, window by window, and whether something of it grows. */

export interface Window {
  /** Seconds since the load began. */
  end: number
  seconds: number
  rows: number
  refused: number
  /** Milliseconds of each answer, by question. */
  answers: Map<string, number[]>
  failures: string[]
  /** Bytes; resident memory is the largest seen. */
  memory: number
  disk: number
  /** Rows that retention has not removed yet, at most. */
  kept: number
  /** Processor seconds of the server. */
  processor: number
}

interface Measure {
  name: string
  /** Seconds after which it is to be flat. */
  settled: number
  of(window: Window): number
  /** The second half of the windows may be above the first by this factor and this much. */
  factor: number
  slack: number
  unit: string
}

const MIB = 1 << 20

export interface Measured {
  questions: readonly string[]
  /** Names of answers that are lags. */
  lags?: readonly string[]
  /** Seconds until the questions' range is full of data. */
  full: number
  /** Seconds until memory and lags are flat. */
  memory: number
}

export function measures({ questions, lags = [], full, memory: settled }: Measured): Measure[] {
  return [
    { name: 'memory', settled, of: ({ memory }) => memory / MIB, factor: 1.15, slack: 16, unit: 'MiB' },
    { name: 'disk a row', settled: full, of: ({ disk, kept }) => disk / Math.max(1, kept), factor: 1.25, slack: 1, unit: 'bytes' },
    ...questions.map((name) => ({
      name: `latency of ${name}`,
      settled: full,
      of: ({ answers }: Window) => median(answers.get(name) ?? []),
      factor: 1.5,
      slack: 100,
      unit: 'ms',
    })),
    // A second of it is a flush at a bad moment.
    ...lags.map((name) => ({
      name: `lag of ${name}`,
      settled,
      of: ({ answers }: Window) => median(answers.get(name) ?? []),
      factor: 1.5,
      slack: 1000,
      unit: 'ms',
    })),
  ]
}

/** What has grown: the median of the later half of the settled windows against that of the earlier half. */
export function grown(windows: readonly Window[], all: readonly Measure[]): { grown: string[]; unjudged: string[] } {
  const out = { grown: [] as string[], unjudged: [] as string[] }
  for (const { name, settled, of, factor, slack, unit } of all) {
    const values = windows
      .filter(({ end, seconds }) => end - seconds >= settled)
      .map(of)
      .filter((value) => !Number.isNaN(value))
    const half = values.length >> 1
    if (half === 0) {
      out.unjudged.push(name)
      continue
    }
    const [before, after] = [median(values.slice(0, half)), median(values.slice(-half))]
    if (after > before * factor + slack) out.grown.push(`${name} grows: ${before.toFixed(1)}, then ${after.toFixed(1)} ${unit}`)
  }
  return out
}

/** NaN of none. */
export function median(values: readonly number[]): number {
  if (values.length === 0) return Number.NaN
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
}

export function header(questions: readonly string[]): string {
  const shown = questions.map((name) => `${name} p50/max ms`.padStart(22))
  return `     end s   rows/s refused  proc    RSS  disk MiB B/row${shown.join('')}`
}

export function line({ end, seconds, rows, refused, answers, failures, memory, disk, kept, processor }: Window, questions: readonly string[]): string {
  const shown = questions.map((name) => {
    const times = answers.get(name) ?? []
    return (times.length === 0 ? '-' : `${Math.round(median(times))}/${Math.round(times.reduce((most, time) => Math.max(most, time)))}`).padStart(22)
  })
  const failed = failures.length === 0 ? '' : `  ${failures.length} failed: ${failures[0]}`
  const cell = (value: number, width: number, digits = 0): string => value.toFixed(digits).padStart(width)
  return `${cell(end, 10)}${cell(rows / seconds, 9)}${cell(refused, 8)}${cell(processor / seconds, 6, 2)}${cell(memory / MIB, 7)}${cell(disk / MIB, 10)}${cell(disk / Math.max(1, kept), 6, 1)}${shown.join('')}${failed}`
}
