/** What the range functions share in dealing with native histograms. */
import { ADD_INCOMPATIBLE, ADD_RECONCILED, FloatHistogram } from '../histogram/float-histogram.ts'
import type { RangeCall } from './contract.ts'
import { mismatchedBounds, mixedSchemas } from './messages.ts'

export function histogramAt(call: RangeCall, i: number): FloatHistogram {
  const histogram = call.histograms?.[i]
  if (histogram === undefined) throw new Error('cannot read a histogram sample: its place is empty')
  return histogram
}

/** Nothing observed yet, in the same kind of buckets. */
export function zeroLike({ schema, customBounds }: FloatHistogram): FloatHistogram {
  const zero = new FloatHistogram()
  zero.schema = schema
  zero.customBounds = customBounds
  return zero
}

/** base += other. @returns false, after a warning, when one has custom buckets and the other has not */
export function addTo(base: FloatHistogram, other: FloatHistogram, call: RangeCall): boolean {
  return accept(base.add(other), call, 'addition')
}

/** base -= other, as `addTo`. Counter reset hints that contradict each other do not matter: callers look at resets themselves. */
export function subtractFrom(base: FloatHistogram, other: FloatHistogram, call: RangeCall): boolean {
  return accept(base.sub(other), call, 'subtraction')
}

function accept(met: number, call: RangeCall, operation: 'addition' | 'subtraction'): boolean {
  if ((met & ADD_INCOMPATIBLE) !== 0) {
    call.annotations.warning(mixedSchemas(call.metricName()), call.pos)
    return false
  }
  if ((met & ADD_RECONCILED) !== 0) call.annotations.info(mismatchedBounds(operation), call.pos)
  return true
}
