/** Whether a counter histogram was reset between two samples. */

import {
  CUSTOM_BUCKETS_SCHEMA,
  commonBounds,
  firstAbove,
  type HistogramParts,
  mapCounts,
  reduceSide,
  type Side,
  sameBounds,
  sameIndex,
  widened,
} from 'svcdb/lib/histogram'

/**
 * True when any count fell or a populated bucket is gone, at the resolution and zero threshold of the later sample. A finer resolution
 * or a narrower zero bucket comes with a reset only. Counter reset hints are not looked at.
 */
export function fell(h: HistogramParts, previous: HistogramParts): boolean {
  if (h.count < previous.count) return true
  if (h.schema === CUSTOM_BUCKETS_SCHEMA) {
    if (previous.schema !== CUSTOM_BUCKETS_SCHEMA) return true
    if (!sameBounds(h.customBounds, previous.customBounds)) return fellInCommonBounds(h, previous)
    return sideFell(h.positive, 0, previous.positive, 0)
  }
  if (h.schema > previous.schema || h.zeroThreshold < previous.zeroThreshold) return true
  const wider = widened(previous, h.zeroThreshold, undefined)
  if (wider.threshold !== h.zeroThreshold || h.zeroCount < wider.count) return true
  return exponentialFell(h, h.positive, previous.schema, previous.positive) || exponentialFell(h, h.negative, previous.schema, previous.negative)
}

function exponentialFell({ schema, zeroThreshold }: HistogramParts, side: Side, previousSchema: number, previous: Side): boolean {
  const before = previousSchema === schema ? previous : reduceSide(previous, previousSchema - schema)
  return sideFell(side, firstAbove(side.index, schema, zeroThreshold), before, firstAbove(before.index, schema, zeroThreshold))
}

function sideFell(side: Side, from: number, previous: Side, previousFrom: number): boolean {
  if (from === 0 && previousFrom === 0 && sameIndex(side.index, previous.index)) {
    for (let i = 0; i < side.counts.length; i++) if (side.counts[i] < previous.counts[i]) return true
    return false
  }
  let at = from
  for (let i = previousFrom; i < previous.index.length; i++) {
    while (at < side.index.length && side.index[at] < previous.index[i]) at++
    const gone = at === side.index.length || side.index[at] > previous.index[i]
    if (gone ? previous.counts[i] !== 0 : side.counts[at] < previous.counts[i]) return true
  }
  return false
}

function fellInCommonBounds(h: HistogramParts, previous: HistogramParts): boolean {
  const common = commonBounds(h.customBounds, previous.customBounds)
  const counts = new Float64Array(common.length + 1)
  const before = new Float64Array(common.length + 1)
  mapCounts(h.positive, undefined, h.customBounds, common, 1, counts, new Float64Array(common.length + 1))
  mapCounts(previous.positive, undefined, previous.customBounds, common, 1, before, new Float64Array(common.length + 1))
  return counts.some((count, i) => count < before[i])
}
