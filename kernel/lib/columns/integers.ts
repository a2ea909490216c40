/**
 * Integers in as few bytes each as the largest of them needs. What looks at many of them has a loop for each kind of array: V8 compiles a loop that has met
 * several kinds to one that takes up to twice as long.
 */
export type Integers = Int8Array | Int16Array | Int32Array

/** Sums of so many, and those on the way to them, are 32 bits. */
const MOST_OF_8 = 2 ** 24
const MOST_OF_16 = 2 ** 16

/** Whether values are kept as integers, and not as the floats that they stand for. */
export function isIntegers(values: Float64Array | Integers): values is Integers {
  return !(values instanceof Float64Array)
}

/** A copy. */
export function narrowIntegers(numbers: Int32Array): Integers {
  const bytes = bytesOfIntegers(numbers)
  return bytes === 1 ? new Int8Array(numbers) : bytes === 2 ? new Int16Array(numbers) : numbers.slice()
}

/** What each of them takes. */
export function bytesOfIntegers(numbers: Int32Array): 1 | 2 | 4 {
  let bits = 0
  for (let i = 0; i < numbers.length; i++) bits |= numbers[i] ^ (numbers[i] >> 31)
  return bits < 1 << 7 ? 1 : bits < 1 << 15 ? 2 : 4
}

/** Exact. */
export function sumOfIntegers(values: Integers, from: number, to: number): number {
  if (values instanceof Int8Array && to - from <= MOST_OF_8) return sumOf8(values, from, to)
  if (values instanceof Int16Array && to - from <= MOST_OF_16) return sumOf16(values, from, to)
  let sum = 0
  for (let i = from; i < to; i++) sum += values[i]
  return sum
}

/** Of values whose sum, and those on the way to it, are 32 bits. */
export function narrowSumOfIntegers(values: Integers, from: number, to: number): number {
  return values instanceof Int32Array ? sumOf32(values, from, to) : sumOfIntegers(values, from, to)
}

// One by one: the compiler checks bounds for every value of an unrolled loop, which takes twice as long.
function sumOf8(values: Int8Array, from: number, to: number): number {
  let sum = 0
  for (let i = from; i < to; i++) sum = (sum + values[i]) | 0
  return sum
}

function sumOf16(values: Int16Array, from: number, to: number): number {
  let sum = 0
  for (let i = from; i < to; i++) sum = (sum + values[i]) | 0
  return sum
}

function sumOf32(values: Int32Array, from: number, to: number): number {
  let sum = 0
  for (let i = from; i < to; i++) sum = (sum + values[i]) | 0
  return sum
}

/** The least of them and of what was least before. */
export function leastInteger(values: Integers, from: number, to: number, before: number): number {
  if (values instanceof Int8Array) return leastOf8(values, from, to, before)
  return values instanceof Int16Array ? leastOf16(values, from, to, before) : leastOf32(values, from, to, before)
}

function leastOf8(values: Int8Array, from: number, to: number, before: number): number {
  let least = before
  for (let i = from; i < to; i++) if (values[i] < least) least = values[i]
  return least
}

function leastOf16(values: Int16Array, from: number, to: number, before: number): number {
  let least = before
  for (let i = from; i < to; i++) if (values[i] < least) least = values[i]
  return least
}

function leastOf32(values: Int32Array, from: number, to: number, before: number): number {
  let least = before
  for (let i = from; i < to; i++) if (values[i] < least) least = values[i]
  return least
}

/** The greatest of them and of what was greatest before. */
export function greatestInteger(values: Integers, from: number, to: number, before: number): number {
  if (values instanceof Int8Array) return greatestOf8(values, from, to, before)
  return values instanceof Int16Array ? greatestOf16(values, from, to, before) : greatestOf32(values, from, to, before)
}

function greatestOf8(values: Int8Array, from: number, to: number, before: number): number {
  let greatest = before
  for (let i = from; i < to; i++) if (values[i] > greatest) greatest = values[i]
  return greatest
}

function greatestOf16(values: Int16Array, from: number, to: number, before: number): number {
  let greatest = before
  for (let i = from; i < to; i++) if (values[i] > greatest) greatest = values[i]
  return greatest
}

function greatestOf32(values: Int32Array, from: number, to: number, before: number): number {
  let greatest = before
  for (let i = from; i < to; i++) if (values[i] > greatest) greatest = values[i]
  return greatest
}
