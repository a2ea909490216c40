import t from 'tap'
import { seeded } from '../random/index.ts'
import { bytesOfIntegers, greatestInteger, isIntegers, leastInteger, narrowIntegers, narrowSumOfIntegers, sumOfIntegers } from './integers.ts'

t.test('integers take as few bytes as the largest needs, and stay what they are', async (t) => {
  for (const [bytes, least, most] of [
    [1, -128, 127],
    [2, -32768, 32767],
    [4, -(2 ** 31), 2 ** 31 - 1],
  ] as const) {
    for (const numbers of [Int32Array.of(0, least, 1), Int32Array.of(most, -1), Int32Array.of(least, most)]) {
      t.equal(bytesOfIntegers(numbers), bytes)
      const narrow = narrowIntegers(numbers)
      t.equal(narrow.BYTES_PER_ELEMENT, bytes)
      t.same([...narrow], [...numbers])
      t.not(narrow.buffer, numbers.buffer, 'a copy')
    }
    if (bytes < 4) for (const beyond of [least - 1, most + 1]) t.equal(bytesOfIntegers(Int32Array.of(beyond)), bytes * 2)
  }
  t.equal(narrowIntegers(new Int32Array(0)).length, 0)
  t.equal(isIntegers(new Float64Array(1)), false)
  t.equal(isIntegers(new Int8Array(1)), true)
})

t.test('sums and bounds are those of plain loops, whatever the kind of array', async (t) => {
  const seed = Date.now() % 1e6
  t.comment(`seed ${seed}`)
  const random = seeded(seed)
  for (let round = 0; round < 300; round++) {
    const size = [100, 30_000, 2 ** 31 - 1][round % 3]
    const numbers = Int32Array.from({ length: 1 + Math.floor(random() * 500) }, () => Math.floor((random() * 2 - 1) * size))
    const from = Math.floor(random() * numbers.length)
    const to = from + Math.floor(random() * (numbers.length - from + 1))
    const part = [...numbers.subarray(from, to)]
    const sum = part.reduce((all, one) => all + one, 0)
    const before = Math.floor((random() * 2 - 1) * size)
    const values = narrowIntegers(numbers)
    if (sumOfIntegers(values, from, to) !== sum) t.fail(`sum of ${part}`)
    if (size < 1e6 && narrowSumOfIntegers(values, from, to) !== sum) t.fail(`narrow sum of ${part}`)
    if (leastInteger(values, from, to, before) !== Math.min(before, ...part)) t.fail(`least of ${part}`)
    if (greatestInteger(values, from, to, before) !== Math.max(before, ...part)) t.fail(`greatest of ${part}`)
  }
  t.equal(narrowSumOfIntegers(Int32Array.of(2 ** 30, -1, 5), 0, 3), 2 ** 30 + 4)
})

t.test('sums of more than 32 bits are exact', async (t) => {
  for (const [array, value] of [
    [new Int16Array(70_000), 32_767],
    [new Int16Array(70_000), -32_768],
    [new Int8Array(2 ** 24 + 8), -128],
    [new Int32Array(1000), 2 ** 31 - 1],
  ] as const)
    t.equal(sumOfIntegers(array.fill(value), 0, array.length), array.length * value)
})
