/** ORDER BY over numbers: ranks of tags, times, values. */
import type { GroupTag } from './groups.ts'

export interface OrderTerm {
  /** A number a row, in the order asked for. */
  ranks: Float64Array
  /** Where ranks are integers from 0 on: one more than the last. */
  size: number | undefined
}

/** Of numbers that are not many times more than rows, those of each are counted. */
const COUNTED = 8

/** Positions of rows in order. By one number a row where the terms allow it: an array of numbers is sorted without calling back, or not at all. */
export function sortedPositions(terms: readonly OrderTerm[], n: number): Uint32Array {
  const kinds = terms.reduce((product, { size }) => product * (size ?? Number.POSITIVE_INFINITY), 1)
  if (kinds * n <= Number.MAX_SAFE_INTEGER) {
    const numbers = new Float64Array(n)
    for (const { ranks, size } of terms) for (let i = 0; i < n; i++) numbers[i] = numbers[i] * (size as number) + ranks[i]
    if (kinds <= n * COUNTED) return countedPositions(numbers, kinds)
    for (let i = 0; i < n; i++) numbers[i] = numbers[i] * n + i
    numbers.sort()
    return Uint32Array.from(numbers, (number) => number % n)
  }
  const positions = Uint32Array.from({ length: n }, (_, i) => i)
  return positions.sort((a, b) => {
    for (const { ranks } of terms) if (ranks[a] !== ranks[b]) return ranks[a] < ranks[b] ? -1 : 1
    return a - b
  })
}

/** @param numbers integers from 0 on, below `kinds`. */
function countedPositions(numbers: Float64Array, kinds: number): Uint32Array {
  const places = new Uint32Array(kinds + 1)
  for (let i = 0; i < numbers.length; i++) places[numbers[i] + 1]++
  for (let kind = 1; kind < places.length; kind++) places[kind] += places[kind - 1]
  const out = new Uint32Array(numbers.length)
  for (let i = 0; i < numbers.length; i++) out[places[numbers[i]]++] = i
  return out
}

/** Ranks by code + 1, from 0 on and below the number of texts + 2; the first is that of null. */
export function tagRanks(tag: GroupTag, descending: boolean, nullsFirst: boolean): Int32Array {
  const ranks = textRanks(tag)
  const last = ranks.length
  const out = new Int32Array(last + 1)
  out[0] = nullsFirst ? 0 : last + 1
  for (let code = 0; code < last; code++) out[code + 1] = 1 + (descending ? last - 1 - ranks[code] : ranks[code])
  return out
}

/** Of lists that grow in place, as long as they were then. */
const ranksOfAll = new WeakMap<readonly string[], Int32Array>()

/** The place of each text in the order of their UTF-8 bytes; of those that are used, or of all. */
export function textRanks({ texts, codes }: Pick<GroupTag, 'texts' | 'codes'>): Int32Array {
  const known = ranksOfAll.get(texts)
  if (known?.length === texts.length) return known
  const used = new Uint8Array(texts.length)
  for (const code of codes) if (code >= 0) used[code] = 1
  const count = used.reduce((sum, one) => sum + one, 0)
  const all = count * 2 >= texts.length
  const order: number[] = []
  for (let code = 0; code < texts.length; code++) if (all || used[code] === 1) order.push(code)
  order.sort((a, b) => compareBytes(texts[a], texts[b]))
  const ranks = new Int32Array(texts.length)
  for (let i = 0; i < order.length; i++) ranks[order[i]] = i
  if (all) ranksOfAll.set(texts, ranks)
  return ranks
}

const SURROGATES = /[\ud800-\udfff]/

/** As their UTF-8 compares: that is how their units do, but for surrogates. */
function compareBytes(a: string, b: string): number {
  if (SURROGATES.test(a) || SURROGATES.test(b)) return Buffer.compare(Buffer.from(a), Buffer.from(b))
  return a < b ? -1 : a > b ? 1 : 0
}
