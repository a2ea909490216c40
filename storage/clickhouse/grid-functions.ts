/**
 * ClickHouse's aggregate functions that turn the samples of a series into the values of windows on a grid of times. They are experimental, and came and
 * changed between its versions: they are used where this server gives for a series that is known what PromQL gives.
 */

import type { WindowFunction } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import type { Client } from './client.ts'
import type { ReadColumn } from './native/decode.ts'

export const ALLOW_GRIDS = 'allow_experimental_ts_to_grid_aggregate_function = 1'
/** Codes of ClickHouse that say that a server lacks the functions or may not use them. */
export const LACKING: ReadonlySet<string> = new Set(['46', '115', '164', '344', '452'])
/** `increase` is a rate times the seconds of its window: the function for it came later than the others. */
const FUNCTIONS: Readonly<Record<WindowFunction, string>> = {
  last: 'timeSeriesResampleToGridWithStaleness',
  rate: 'timeSeriesRateToGrid',
  increase: 'timeSeriesRateToGrid',
  delta: 'timeSeriesDeltaToGrid',
  irate: 'timeSeriesInstantRateToGrid',
  idelta: 'timeSeriesInstantDeltaToGrid',
}

/** Times of windows in units of the grid, 0 = seconds, 3 = milliseconds. */
export interface Grid {
  scale: 0 | 3
  /** All in milliseconds: the first end of a window, the last, how far they are apart, and what each covers. */
  first: number
  last: number
  step: number
  range: number
}

/** @param time, value columns: `timeOnGrid` of the time, and a float that is not NULL. @returns an expression of type Array(Nullable(Float64)), one item a window. */
export function gridOf(window: WindowFunction, { scale, first, last, step, range }: Grid, time: string, value: string): string {
  // Of one window the step is not looked at, and must not be 0.
  const spans = [first === last ? 1000 : step, range].map((ms) => (scale === 0 ? String(ms / 1000) : `toDecimal64('${decimal(ms)}', 3)`))
  return `${FUNCTIONS[window]}(${timeOf(first, scale)}, ${timeOf(last, scale)}, ${spans.join(', ')})(${time}, ${value})`
}

/** A column of nanoseconds as times of a grid; what is finer is cut off. */
export function timeOnGrid(time: string, scale: Grid['scale']): string {
  return `CAST(${time} AS DateTime64(${scale}, 'UTC'))`
}

function timeOf(ms: number, scale: Grid['scale']): string {
  return scale === 0 ? `fromUnixTimestamp64Second(toInt64('${ms / 1000}'), 'UTC')` : `fromUnixTimestamp64Milli(toInt64('${ms}'), 'UTC')`
}

/** Milliseconds as seconds, in digits. */
function decimal(ms: number): string {
  return `${Math.floor(ms / 1000)}.${String(ms % 1000).padStart(3, '0')}`
}

/** Of a series: a sample at the open end of a window and one at the closed, a reset, a counter close to zero, ends out of reach, windows of one sample and of none. */
const SAMPLES = "values('seconds Int64, value Float64', (0, 1), (10, 2), (40, 8), (60, 5), (70, 6), (100, 9), (150, 7), (280, 10), (284, 14))"
const WINDOWS: Grid = { scale: 3, first: 60_000, last: 300_000, step: 60_000, range: 60_000 }
const EXPECTED: Readonly<Record<Exclude<WindowFunction, 'increase'>, readonly (number | null)[]>> = {
  last: [5, 9, 7, null, 14],
  rate: [13 / 60, 0.1, null, null, 8 / 60],
  delta: [3.6, 6, null, null, 8],
  irate: [0.25, 0.1, null, null, 1],
  idelta: [-3, 3, null, null, 4],
}
const TOLERANCE = 1e-12

export class GridFunctions {
  private readonly client: Client
  private readonly told: (why: string) => void
  private found: Promise<boolean> | undefined
  private lastTold: string | undefined

  /** @param told when they cannot be used, once for each reason. */
  constructor(client: Client, told: (why: string) => void) {
    this.client = client
    this.told = told
  }

  /** Asked once for all questions, in the node's own name: each waits until its signal. @throws SvcError when ClickHouse is not reached, or has no room; it is asked again then. */
  async available(signal?: AbortSignal): Promise<boolean> {
    if (this.found === undefined) {
      this.found = this.look()
      this.found.catch(() => (this.found = undefined))
    }
    return signal === undefined ? this.found : within(this.found, signal)
  }

  private async look(): Promise<boolean> {
    const why = await this.objection()
    if (why !== undefined && why !== this.lastTold) this.told(why)
    this.lastTold = why
    return why === undefined
  }

  private async objection(): Promise<string | undefined> {
    const windows = Object.keys(EXPECTED) as (keyof typeof EXPECTED)[]
    const grids = windows.map((window) => gridOf(window, WINDOWS, "fromUnixTimestamp64Milli(seconds * 1000, 'UTC')", 'value'))
    try {
      for await (const { columns } of this.client.blocks(`SELECT ${grids.join(', ')} FROM ${SAMPLES}`, { settings: [ALLOW_GRIDS], meaning }))
        for (const [i, window] of windows.entries()) {
          const { bytes, nulls } = columns[i].items as ReadColumn
          const found = Array.from(new Float64Array(bytes.buffer), (value, k) => (nulls?.[k] === 1 ? null : value))
          if (!isSame(found, EXPECTED[window])) return `${FUNCTIONS[window]} gives ${JSON.stringify(found)} where ${JSON.stringify(EXPECTED[window])} is right`
        }
    } catch (error) {
      if (!(error instanceof SvcError) || error.code !== 'DATABASE_ERROR') throw error
      // Another error may pass.
      if (!(error instanceof Lacking)) this.found = undefined
      return error.message
    }
    return undefined
  }
}

class Lacking extends SvcError {}

const meaning = (code: string, message: string): SvcError | undefined =>
  LACKING.has(code) ? new Lacking('DATABASE_ERROR', `${message} (code ${code})`) : undefined

/** @throws what the signal is aborted with. */
async function within<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted()
  const ended = Promise.withResolvers<never>()
  const end = (): void => ended.reject(signal.reason)
  signal.addEventListener('abort', end, { once: true })
  try {
    return await Promise.race([work, ended.promise])
  } finally {
    signal.removeEventListener('abort', end)
  }
}

function isSame(found: readonly (number | null)[], expected: readonly (number | null)[]): boolean {
  return (
    found.length === expected.length &&
    found.every((value, i) => {
      const other = expected[i]
      return value === null || other === null ? value === other : Math.abs(value - other) <= TOLERANCE * Math.abs(other)
    })
  )
}
