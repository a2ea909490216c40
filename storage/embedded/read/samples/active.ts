/** Which series have rows in a time range: the newest pieces are asked first, and only about series not met yet. */
import type { SegmentMeta } from '../../threads/layout.ts'
import type { RelationContext } from '../relation.ts'
import type { Piece } from '../sources.ts'
import { eachCommon } from './gather.ts'
import { timeBound, visibleParts } from './mask-times.ts'
import type { ReadScope } from './segment-blocks.ts'
import { millisecondRange, type VisibleUnit } from './source-blocks.ts'

/** @returns places in `series`, ascending. */
export async function activeSeries({ units }: RelationContext, pieces: readonly Piece[], series: Int32Array, scope: ReadScope): Promise<Int32Array> {
  const active = new Uint8Array(series.length)
  const [lo, hi] = millisecondRange([...scope.range])
  const parts: number[] = []
  const look = ({ unit, hidden }: VisibleUnit): void => {
    if (unit.maxTime < lo || unit.minTime > hi) return
    const { starts, times } = unit
    const whole = hidden.length === 0 && unit.minTime >= lo && unit.maxTime <= hi
    eachCommon(series, unit.series, (i, at) => {
      if (active[i] === 1) return
      if (whole) {
        active[i] = 1
        return
      }
      const from = timeBound(times, lo, starts[at], starts[at + 1])
      const to = timeBound(times, hi + 1, from, starts[at + 1])
      if (from < to && (hidden.length === 0 || visibleParts(hidden, unit.series[at], times, from, to, parts) > 0)) active[i] = 1
    })
  }
  const sources = units.sourcesOf(pieces)
  for (let i = sources.length - 1; i >= 0; i--) {
    const rest = missing(series, active)
    if (rest.length === 0) break
    const { piece } = sources[i]
    const [from, to] = scope.range
    if (piece.segment !== undefined && piece.hidden.length === 0 && piece.minTime >= from && piece.maxTime <= to) {
      if (hasField(piece.segment, scope)) eachCommon(series, await units.seriesOf(piece, scope), (place) => (active[place] = 1))
    } else for (const unit of await units.read(sources[i], rest, scope)) look(unit)
  }
  const out = new Int32Array(series.length)
  let n = 0
  for (let i = 0; i < series.length; i++) if (active[i] === 1) out[n++] = i
  return out.subarray(0, n)
}

function hasField({ columns }: SegmentMeta, { field }: ReadScope): boolean {
  return columns.some((column) => column.field === field.id)
}

function missing(series: Int32Array, active: Uint8Array): Int32Array {
  const out = new Int32Array(series.length)
  let n = 0
  for (let i = 0; i < series.length; i++) if (active[i] === 0) out[n++] = series[i]
  return out.subarray(0, n)
}
