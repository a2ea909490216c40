/**
 * Columns in WAL records: small without a general compressor, because the log must keep up with the parser and fsync is paid by the
 * byte. Layout: docs/formats/wal.md. Each codec is a pair of an encode and a decode that are exact inverses.
 */
import { hasNonFinite } from '../floats.ts'
import type { ByteReader, ByteWriter } from './bytes.ts'

// Integers (32 bit): frame of reference, base then the width in bytes of each offset.
// Floats: integers of value * 10^k with a base, when that is exact for every value; else the raw doubles.
const F64_RAW = 0xff
const MAX_SCALE = 4
const POWERS = [1, 10, 100, 1000, 10_000]
const TIME_RUNS = 1
const TIME_RAW = 0

export function encodeInts(out: ByteWriter, values: Int32Array, n: number, stride = 1, first = 0): void {
  let min = 0x7fffffff
  let max = -0x80000000
  for (let i = 0, j = first; i < n; i++, j += stride) {
    const v = values[j]
    if (v < min) min = v
    if (v > max) max = v
  }
  if (n === 0) min = max = 0
  const range = max - min
  const width = range === 0 ? 0 : range < 0x100 ? 1 : range < 0x10000 ? 2 : 4
  out.u32(min)
  out.u8(width)
  let at = out.reserve(n * width)
  const bytes = out.bytes
  if (width === 1) for (let i = 0, j = first; i < n; i++, j += stride) bytes[at++] = values[j] - min
  else if (width === 2)
    for (let i = 0, j = first; i < n; i++, j += stride) {
      const v = values[j] - min
      bytes[at++] = v
      bytes[at++] = v >>> 8
    }
  else if (width === 4)
    for (let i = 0, j = first; i < n; i++, j += stride) {
      const v = values[j] - min
      bytes[at++] = v
      bytes[at++] = v >>> 8
      bytes[at++] = v >>> 16
      bytes[at++] = v >>> 24
    }
}

export function decodeInts(reader: ByteReader, values: Int32Array, n: number, stride = 1, first = 0): void {
  const min = reader.u32() | 0
  const width = reader.u8()
  if (width !== 0 && width !== 1 && width !== 2 && width !== 4) throw new RangeError(`unknown integer width ${width}`)
  let at = reader.take(n * width)
  const { bytes } = reader
  for (let i = 0, j = first; i < n; i++, j += stride) {
    let v = 0
    for (let b = 0; b < width; b++) v |= bytes[at++] << (8 * b)
    values[j] = (min + v) | 0
  }
}

/** Times as low and high halves: runs of equal times when that is shorter. */
export function encodeTimes(out: ByteWriter, time: Int32Array, n: number): void {
  let runs = 0
  for (let i = 0; i < n; i++) if (i === 0 || time[i * 2] !== time[i * 2 - 2] || time[i * 2 + 1] !== time[i * 2 - 1]) runs++
  if (runs * 12 >= n * 8) {
    out.u8(TIME_RAW)
    out.put(new Uint8Array(time.buffer, time.byteOffset, n * 8))
    return
  }
  out.u8(TIME_RUNS)
  out.varint(runs)
  for (let i = 0; i < n; ) {
    let end = i + 1
    while (end < n && time[end * 2] === time[i * 2] && time[end * 2 + 1] === time[i * 2 + 1]) end++
    out.u32(time[i * 2])
    out.u32(time[i * 2 + 1])
    out.varint(end - i)
    i = end
  }
}

export function decodeTimes(reader: ByteReader, time: Int32Array, n: number): void {
  if (reader.u8() === TIME_RAW) {
    const at = reader.take(n * 8)
    new Uint8Array(time.buffer, time.byteOffset, n * 8).set(reader.bytes.subarray(at, at + n * 8))
    return
  }
  let row = 0
  for (let runs = reader.varint(); runs > 0; runs--) {
    const low = reader.u32()
    const high = reader.u32()
    for (let left = reader.varint(); left > 0; left--, row++) {
      if (row >= n) throw new RangeError('a run of times is longer than the table')
      time[row * 2] = low
      time[row * 2 + 1] = high
    }
  }
  if (row !== n) throw new RangeError('the runs of times are shorter than the table')
}

/**
 * Whether ints and then times of n rows follow, before memory is taken for as many: rows of one series and one time take none of the log, so that its
 * length says nothing. Does not move the reader. @throws RangeError when they do not.
 */
export function requireRows(reader: ByteReader, n: number): void {
  const start = reader.position
  reader.take(4)
  const width = reader.u8()
  reader.take(n * width)
  if (reader.u8() === TIME_RAW) reader.take(n * 8)
  else {
    let rows = 0
    for (let runs = reader.varint(); runs > 0; runs--) {
      reader.take(8)
      rows += reader.varint()
    }
    if (rows !== n) throw new RangeError(`the record has times of ${rows} rows, and says ${n}`)
  }
  reader.position = start
}

export function encodeFloats(out: ByteWriter, values: Float64Array, n: number): void {
  const scale = n === 0 ? 0 : commonScale(values, n)
  if (scale < 0) {
    out.u8(F64_RAW)
    out.put(new Uint8Array(values.buffer, values.byteOffset, n * 8))
    return
  }
  const power = POWERS[scale]
  let min = Number.POSITIVE_INFINITY
  let max = Number.NEGATIVE_INFINITY
  for (let i = 0; i < n; i++) {
    const v = values[i]
    if (v < min) min = v
    if (v > max) max = v
  }
  const base = n === 0 ? 0 : Math.round(min * power)
  const range = n === 0 ? 0 : Math.round(max * power) - base
  const width = range === 0 ? 0 : range < 0x100 ? 1 : range < 0x10000 ? 2 : 4
  out.u8(scale)
  out.f64(base)
  out.u8(width)
  let at = out.reserve(n * width)
  const bytes = out.bytes
  if (width === 1) {
    if (scale === 0) for (let i = 0; i < n; i++) bytes[at++] = values[i] - base
    else for (let i = 0; i < n; i++) bytes[at++] = Math.round(values[i] * power) - base
  } else if (width > 1)
    for (let i = 0; i < n; i++) {
      const v = Math.round(values[i] * power) - base
      bytes[at++] = v
      bytes[at++] = v >>> 8
      if (width === 4) {
        bytes[at++] = v >>> 16
        bytes[at++] = v >>> 24
      }
    }
}

/** @returns whether some of the values are NaN or infinite. */
export function decodeFloats(reader: ByteReader, values: Float64Array, n: number): boolean {
  const scale = reader.u8()
  if (scale === F64_RAW) {
    const at = reader.take(n * 8)
    new Uint8Array(values.buffer, values.byteOffset, n * 8).set(reader.bytes.subarray(at, at + n * 8))
    return hasNonFinite(values, n)
  }
  if (scale > MAX_SCALE) throw new RangeError(`unknown float scale ${scale}`)
  const power = POWERS[scale]
  const base = reader.f64()
  const width = reader.u8()
  if (width !== 0 && width !== 1 && width !== 2 && width !== 4) throw new RangeError(`unknown float width ${width}`)
  let at = reader.take(n * width)
  const { bytes } = reader
  for (let i = 0; i < n; i++) {
    let v = 0
    for (let b = 0; b < width; b++) v += bytes[at++] * 2 ** (8 * b)
    values[i] = (base + v) / power
  }
  return false
}

/**
 * The least k such that every value is an integer divided by 10^k and the integers fit 32 bits around each other; -1 when there is none.
 * The quotient of two exact doubles is correctly rounded, so a value that passes the test here comes back bit for bit.
 */
function commonScale(values: Float64Array, n: number): number {
  let scale = 0
  while (scale < MAX_SCALE && !fits(values[0], POWERS[scale])) scale++
  for (; scale <= MAX_SCALE; scale++) {
    const power = POWERS[scale]
    let i = 0
    if (scale === 0) {
      // -0 has no integer: its bits would be lost.
      for (; i < n; i++) {
        const v = values[i]
        if (v !== (v | 0) || (v === 0 && 1 / v < 0)) break
      }
      if (i === n) return 0
    } else {
      let min = 0
      let max = 0
      for (; i < n; i++) {
        const v = values[i]
        const scaled = Math.round(v * power)
        if (scaled / power !== v || (v === 0 && 1 / v < 0)) break
        if (scaled < min) min = scaled
        if (scaled > max) max = scaled
      }
      if (i === n) return max - min < 0xffffffff ? scale : -1
    }
    if (!Number.isFinite(values[i])) return -1
  }
  return -1
}

function fits(value: number, power: number): boolean {
  return Math.round(value * power) / power === value
}

/** 64-bit integers as halves: 32-bit ones when the high half only repeats the sign. */
export function encodeInt64s(out: ByteWriter, halves: Int32Array, n: number): void {
  let narrow = true
  for (let i = 0; i < n && narrow; i++) narrow = halves[i * 2 + 1] === halves[i * 2] >> 31
  out.u8(narrow ? 1 : 0)
  encodeInts(out, halves, n, 2, 0)
  if (!narrow) encodeInts(out, halves, n, 2, 1)
}

export function decodeInt64s(reader: ByteReader, halves: Int32Array, n: number): void {
  const narrow = reader.u8() === 1
  decodeInts(reader, halves, n, 2, 0)
  if (narrow) for (let i = 0; i < n; i++) halves[i * 2 + 1] = halves[i * 2] >> 31
  else decodeInts(reader, halves, n, 2, 1)
}
