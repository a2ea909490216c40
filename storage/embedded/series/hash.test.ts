import t from 'tap'
import { admitted, newIndex, ref } from '../testing/series.ts'
import { type HashKey, hashBytes } from './hash.ts'
import { TextTable } from './text-table.ts'
import type { TupleTable } from './tuple-table.ts'

const KEY: HashKey = { low: 0x2545f491, high: 0x4f6cdd1d }
const encoder = new TextEncoder()

/** The longest way from where an entry's hash says to where it lies. */
function longestProbe({ slots, hashes }: { slots: Int32Array; hashes: Int32Array }): number {
  const mask = slots.length - 1
  let longest = 0
  for (const [slot, entry] of slots.entries()) if (entry > 0) longest = Math.max(longest, (slot - hashes[entry - 1]) & mask)
  return longest
}

function tableOf(texts: readonly Uint8Array[], key: HashKey): TextTable {
  const table = new TextTable(key, 'local')
  for (const text of texts) table.index(table.add(text, 0, text.length, table.hashOf(text, 0, text.length)) + 1)
  return table
}

/** FNV-1a, which tables had before, and its state so far. */
const fnv = (hash: number, bytes: Iterable<number>): number => {
  for (const byte of bytes) hash = Math.imul(hash ^ byte, 0x01000193)
  return hash | 0
}

/** Words of which either leads FNV-1a from the state before to the same next one: found by trying, once. */
const PAIRS = [['7yzla', 'e6apa'], ['9tzla', 'g1cpa'], ...Array.from({ length: 8 }, () => ['05zla', 'bpcpa'])]

/** All 1,024 texts made of one word of each pair: they have one FNV-1a hash (Joux). */
const fnvMultiCollision = (): Uint8Array[] =>
  Array.from({ length: 2 ** PAIRS.length }, (_, choice) => encoder.encode(PAIRS.map((pair, stage) => pair[(choice >> stage) & 1]).join('')))

t.test('HalfSipHash-1-3: the published vectors of 32 bits', async (t) => {
  const key = { low: 0x03020100, high: 0x07060504 }
  const bytes = Uint8Array.from({ length: 16 }, (_, i) => i)
  const expected = ['5814c896', 'e7e864ca', 'bc4b0e30', '01539939', '7e059ea6', '88e3d89b', 'a0080b65', '9d38d9d6', '577999b1', 'c839caed', 'e4fa32cf']
  t.same(
    expected.map((_, length) => (hashBytes(key, bytes, 0, length) >>> 0).toString(16).padStart(8, '0')),
    expected,
  )
  t.equal(hashBytes(key, bytes, 3, 9), hashBytes(key, bytes.slice(3, 9), 0, 6))
})

t.test('texts that collide in a hash without a key do not in this one', async (t) => {
  const texts = fnvMultiCollision()
  t.equal(new Set(texts.map((text) => fnv(0x811c9dc5, text))).size, 1)
  t.equal(new Set(texts.map((text) => Buffer.from(text).toString())).size, 1024)
  const probe = longestProbe(tableOf(texts, KEY))
  t.ok(probe < 40, `${probe} steps`)
})

t.test('texts made for a guessed key collide under that key only', async (t) => {
  const guess: HashKey = { low: 0, high: 0 }
  const texts: Uint8Array[] = []
  for (let i = 0; texts.length < 300; i++) {
    const text = encoder.encode(`host-${i}`)
    if ((hashBytes(guess, text, 0, text.length) & 1023) === 5) texts.push(text)
  }
  t.ok(longestProbe(tableOf(texts, guess)) > 100, 'the texts are what they are meant to be')
  for (const key of [KEY, { low: 1, high: 0 }, { low: 0, high: 1 }]) {
    const probe = longestProbe(tableOf(texts, key))
    t.ok(probe < 40, `${probe} steps under ${key.low} ${key.high}`)
  }
})

t.test('series chosen by the numbers that their texts will have do not collide', async (t) => {
  // The hash that the index had before was made of the symbols, which are given in order.
  const mix = (hash: number): number => {
    hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
    hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
    return hash ^ (hash >>> 16)
  }
  const bySymbols = (tuple: readonly number[]): number => mix(tuple.reduce((hash, symbol) => Math.imul(hash ^ symbol, 0x01000193) ^ (hash >>> 15), 0x9747b28c))
  const VALUES = 300
  const chosen: [number, number][] = []
  for (let a = 0; a < VALUES; a++) for (let b = 0; b < VALUES; b++) if ((bySymbols([0, 1, 3 + a, 2, 3 + b]) & 63) === 9) chosen.push([a, b])
  t.ok(chosen.length > 1000)
  const index = newIndex({ hashKey: KEY })
  for (const [a, b] of chosen.slice(0, 1000)) index.publish(admitted(index, ref(0), ['a', `v${a}`, 'b', `v${b}`]))
  t.equal(index.live, 1000)
  const probe = longestProbe((index as unknown as { tuples: TupleTable }).tuples)
  t.ok(probe < 40, `${probe} steps`)
})
