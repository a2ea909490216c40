/** integral(): the area below a window's floats, as sums of rectangles or, unless told otherwise, of trapezoids. */
import { FLOAT } from '../eval/value.ts'
import type { RangeCall } from './contract.ts'
import { invalidIntegralStrategy } from './messages.ts'
import { onFloats } from './range-window.ts'

/** The value of an interval: that of its first sample, of its last one, or the middle of both. */
const LEFT = 0
const RIGHT = 1
const MIDDLE = 2

export function integral(call: RangeCall): number {
  if (call.kinds !== undefined) return onFloats(call, integral)
  const { times, values, lo, hi } = call
  const rule = ruleOf(call)
  let sum = 0
  let lost = 0
  let before = numberOr0(values[lo])
  for (let i = lo + 1; i < hi; i++) {
    const value = numberOr0(values[i])
    const seconds = (times[i] - times[i - 1]) / 1000
    let height = rule === LEFT ? before : value
    let heightLost = 0
    if (rule === MIDDLE) {
      // Halves only where the whole is too large: the smallest floats have none.
      const half = infinite(value + before) && !infinite(value) && !infinite(before)
      const a = half ? value / 2 : value
      const b = half ? before / 2 : before
      height = a + b
      heightLost = infinite(height) ? 0 : loss(b, a, height)
      if (!half) {
        height /= 2
        heightLost /= 2
      }
    }
    before = value
    if (height === 0 && heightLost === 0) continue
    const part = height * seconds
    const next = sum + part
    lost = infinite(next) ? 0 : lost + heightLost * seconds + loss(sum, part, next)
    sum = next
  }
  call.value = infinite(sum) ? sum : sum + lost
  return FLOAT
}

function ruleOf(call: RangeCall): number {
  if (call.scalars.length === 0) return MIDDLE
  const [rule] = call.scalars
  if (rule === LEFT || rule === RIGHT || rule === MIDDLE) return rule
  call.annotations.warning(invalidIntegralStrategy(rule), call.expr.args[1].pos)
  return MIDDLE
}

/** NaN counts as nothing: the samples beside it say what they can. */
const numberOr0 = (value: number): number => (Number.isNaN(value) ? 0 : value)
const infinite = (value: number): boolean => value === Infinity || value === -Infinity
/** Neumaier's: what `next`, the sum of both, cannot hold. */
const loss = (sum: number, value: number, next: number): number => (Math.abs(sum) >= Math.abs(value) ? sum - next + value : value - next + sum)
