/**
 * Selectors of whose histograms a query uses no more than count and sum, or not even these: they are read without buckets.
 *
 * A counter that was reset cannot be recognised then any more, so that it is looked for while the buckets are there, between each sample
 * and the one before it. This shows: such histograms say "reset" or "not reset" where the stored ones said nothing.
 *
 * What looks at whole histograms needs the buckets of all selectors below it: whether two are equal or one has changed, and their text. Prometheus
 * does not ask what stands between, so that resets are found in the same places.
 */
import type { Expr, VectorSelector } from '../ast.ts'
import { FloatHistogram } from '../histogram/float-histogram.ts'
import { SAMPLE_HISTOGRAM, type SampleBlock } from './value.ts'

const USES_STATS: ReadonlySet<string> = new Set(['histogram_count', 'histogram_sum', 'histogram_avg', 'timestamp', 'start_timestamp', 'absent'])
const USES_BUCKETS: ReadonlySet<string> = new Set([
  'histogram_quantile',
  'histogram_quantiles',
  'histogram_fraction',
  'histogram_stddev',
  'histogram_stdvar',
  'changes',
])
const WHOLE: ReadonlySet<string> = new Set(['</', '>/', '==', '!='])

export function statsOnlySelectors(expr: Expr): ReadonlySet<VectorSelector> {
  const found = new Set<VectorSelector>()
  const visit = (node: Expr, stats: boolean): void => {
    switch (node.kind) {
      case 'vector':
        if (stats) found.add(node)
        return
      case 'matrix':
        visit(node.vector, stats)
        return
      case 'paren':
      case 'unary':
        visit(node.expr, stats)
        return
      case 'aggregate':
        if (node.op === 'count_values') return
        visit(node.expr, stats)
        if (node.param !== undefined) visit(node.param, stats)
        return
      case 'binary':
        // What trimming leaves depends on buckets, and whether two are equal.
        if (WHOLE.has(node.op)) return
        visit(node.lhs, stats)
        visit(node.rhs, stats)
        return
      case 'call':
        if (USES_BUCKETS.has(node.name)) return
        for (const arg of node.args) visit(arg, stats || USES_STATS.has(node.name))
        return
      default:
        // Subqueries need the buckets to recognise resets between the samples they pick.
        return
    }
  }
  visit(expr, false)
  return found
}

export function withStatsOnly(block: SampleBlock): SampleBlock {
  const { histograms, kinds, starts } = block
  if (histograms === undefined || kinds === undefined) return block
  const out: (FloatHistogram | undefined)[] = new Array(kinds.length)
  for (let s = 0; s + 1 < starts.length; s++) {
    let previous: FloatHistogram | undefined
    for (let i = starts[s]; i < starts[s + 1]; i++) {
      const histogram = kinds[i] === SAMPLE_HISTOGRAM ? histograms[i] : undefined
      if (histogram === undefined) continue
      out[i] = statsOf(histogram, previous)
      previous = histogram
    }
  }
  return { ...block, histograms: out }
}

function statsOf(histogram: FloatHistogram, previous: FloatHistogram | undefined): FloatHistogram {
  const stats = new FloatHistogram()
  stats.schema = histogram.schema
  stats.count = histogram.count
  stats.sum = histogram.sum
  stats.counterReset = histogram.counterReset
  if (stats.counterReset === 'unknown' && previous !== undefined) stats.counterReset = histogram.detectReset(previous) ? 'reset' : 'not_reset'
  return stats
}
