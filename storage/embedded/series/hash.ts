/**
 * Hashes of what clients name, keyed with random numbers of the process: without the key nobody can prepare texts that meet in one slot, which would make
 * each look-up a scan. HalfSipHash-1-3 (Aumasson and Bernstein), with a key of 64 bits and a result of 32, in the arithmetic of 32 bits that JavaScript has.
 */
export interface HashKey {
  readonly low: number
  readonly high: number
}

/** Also of shared memory. @returns 32 bits, signed. */
export function hashBytes({ low, high }: HashKey, source: Uint8Array, start: number, end: number): number {
  let v0 = low
  let v1 = high
  let v2 = 0x6c796765 ^ low
  let v3 = 0x74656462 ^ high
  const words = end - ((end - start) & 3)
  let i = start
  for (; ; i += 4) {
    let word: number
    if (i < words) word = source[i] | (source[i + 1] << 8) | (source[i + 2] << 16) | (source[i + 3] << 24)
    else {
      word = (end - start) << 24
      if (i < end) word |= source[i]
      if (i + 1 < end) word |= source[i + 1] << 8
      if (i + 2 < end) word |= source[i + 2] << 16
    }
    v3 ^= word
    v0 = (v0 + v1) | 0
    v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0
    v0 = (v0 << 16) | (v0 >>> 16)
    v2 = (v2 + v3) | 0
    v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2
    v0 = (v0 + v3) | 0
    v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0
    v2 = (v2 + v1) | 0
    v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2
    v2 = (v2 << 16) | (v2 >>> 16)
    v0 ^= word
    if (i >= words) break
  }
  v2 ^= 0xff
  for (let round = 0; round < 3; round++) {
    v0 = (v0 + v1) | 0
    v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0
    v0 = (v0 << 16) | (v0 >>> 16)
    v2 = (v2 + v3) | 0
    v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2
    v0 = (v0 + v3) | 0
    v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0
    v2 = (v2 + v1) | 0
    v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2
    v2 = (v2 << 16) | (v2 >>> 16)
  }
  return v1 ^ v3
}

/** The first step of a tuple's hash. @param value a number that may be known to all. */
export const hashStart = ({ low, high }: HashKey, value: number): number => hashStep(low, value ^ high)

/** Takes one more hash of a text in. Who does not know the texts' hashes cannot choose tuples that collide. */
export function hashStep(hash: number, text: number): number {
  hash = Math.imul(hash ^ text, 0x9e3779b1)
  return hash ^ (hash >>> 15)
}

/** Spreads the bits of a hash over the low ones (murmur3's finaliser). */
export function hashEnd(hash: number): number {
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return hash ^ (hash >>> 16)
}
