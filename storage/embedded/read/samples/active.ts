/** Which series have values of a field in a time range: the newest sources are asked first, and only about series not met yet. */
import type { RelationContext } from '../relation.ts'
import type { Source } from '../sources.ts'
import { eachCommon } from './gather.ts'
import { timeBound, unmaskedRuns } from './mask-times.ts'
import { millisecondRange } from './millisecond-range.ts'
import type { ReadScope } from './segment-blocks.ts'
import type { MaskedBlock } from './source-blocks.ts'

/** @returns positions in `series`, ascending. */
export async function activeSeries({ sampleBlocks }: RelationContext, sources: readonly Source[], series: Int32Array, scope: ReadScope): Promise<Int32Array> {
  const active = new Uint8Array(series.length)
  const [lo, hi] = millisecondRange([...scope.range])
  const parts: number[] = []
  const look = ({ block, masks }: MaskedBlock): void => {
    if (block.maxTime < lo || block.minTime > hi) return
    const { starts, times } = block
    const whole = masks.length === 0 && block.minTime >= lo && block.maxTime <= hi
    eachCommon(series, block.series, (i, at) => {
      if (active[i] === 1) return
      const from = whole ? starts[at] : timeBound(times, lo, starts[at], starts[at + 1])
      const to = whole ? starts[at + 1] : timeBound(times, hi + 1, from, starts[at + 1])
      if (from < to && (masks.length === 0 || unmaskedRuns(masks, block.series[at], block, from, to, parts) > 0)) active[i] = 1
    })
  }
  const blockSources = sampleBlocks.groupedSources(sources)
  for (let i = blockSources.length - 1; i >= 0; i--) {
    const rest = missing(series, active)
    if (rest.length === 0) break
    const { source } = blockSources[i]
    const [from, to] = scope.range
    const isWhole = source.segment !== undefined && source.masks.length === 0 && source.minTime >= from && source.maxTime <= to
    const filled = isWhole ? await sampleBlocks.filled(source, scope) : undefined
    if (filled === true) eachCommon(series, await sampleBlocks.seriesOf(source, scope), (position) => (active[position] = 1))
    else if (filled === undefined) for (const block of await sampleBlocks.read(blockSources[i], rest, scope)) look(block)
  }
  const out = new Int32Array(series.length)
  let n = 0
  for (let i = 0; i < series.length; i++) if (active[i] === 1) out[n++] = i
  return out.subarray(0, n)
}

function missing(series: Int32Array, active: Uint8Array): Int32Array {
  const out = new Int32Array(series.length)
  let n = 0
  for (let i = 0; i < series.length; i++) if (active[i] === 0) out[n++] = series[i]
  return out.subarray(0, n)
}
