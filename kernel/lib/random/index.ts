/** Random numbers that a seed repeats (mulberry32): for tests and fuzzers, which print the seed. */
export type Random = () => number

/** @returns a function that gives numbers in [0, 1). */
export function seeded(seed: number): Random {
  let a = seed >>> 0
  return () => {
    a = (a + 0x6d2b79f5) | 0
    let t = Math.imul(a ^ (a >>> 15), 1 | a)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
}
