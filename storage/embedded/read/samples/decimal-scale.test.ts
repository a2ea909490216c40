/** Values of blocks as integers: only where each of them is exactly that. */
import t from 'tap'
import { DecimalScale } from './decimal-scale.ts'
import { type SampleBlock, valueAt } from './sample-block.ts'

const blockOf = (values: readonly number[]): SampleBlock => ({
  series: Int32Array.of(1),
  starts: Int32Array.of(0, values.length),
  times: Float64Array.from(values.keys()),
  values: Float64Array.from(values),
  minTime: 0,
  maxTime: values.length - 1,
})

t.test('decimals of a few digits become integers, in as few bytes as they need', async (t) => {
  const scale = new DecimalScale()
  for (const [values, bytes, divisor] of [
    [[1, 2, -128], 1, 1],
    [[1, 2, 128], 2, 1],
    [[0.1, 12.7, -3], 1, 10],
    [[0.25, 99.99], 2, 100],
    [[1e6, 0.001], 4, 1000],
  ] as const) {
    const block = scale.narrowed(blockOf(values))
    t.equal(block.values.BYTES_PER_ELEMENT, bytes, `${values}`)
    t.equal(block.divisor, divisor)
    t.ok(values.every((value, i) => Object.is(valueAt(block, i), value)))
  }
})

t.test('a block with anything else stays as it is', async (t) => {
  const scale = new DecimalScale()
  for (const odd of [-0, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 31, 1 / 3, 0.0001, 5e-324]) {
    const block = blockOf([1, odd, 2])
    t.equal(scale.narrowed(block), block, `${odd}`)
  }
  const marked = { ...blockOf([1, 2]), kinds: new Uint8Array(2) }
  t.equal(scale.narrowed(marked), marked, 'with staleness markers')
  const few = scale.narrowed(blockOf([3]))
  t.equal(scale.narrowed(few), few, 'integers')
})
