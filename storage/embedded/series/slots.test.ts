/** Tables into which a start puts what is stored at a time: what is found then is what would be found had it come one by one. */
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { MANY } from './slots.ts'
import { TextTable } from './text-table.ts'
import { RELEASED, TupleTable } from './tuple-table.ts'

const seed = Number(process.env.SEED ?? Date.now() % 2 ** 32)
const random = seeded(seed)
const below = (n: number): number => Math.floor(random() * n)
const KEY = { low: below(2 ** 32) | 0, high: below(2 ** 32) | 0 }
const encoder = new TextEncoder()
t.comment(`SEED=${seed}`)

const textOf = (number: number): Uint8Array => encoder.encode(`text ${number}`)
const hashOf = (table: TextTable, text: Uint8Array): number => table.hashOf(text, 0, text.length)
function add(table: TextTable, number: number): void {
  const text = textOf(number)
  table.add(text, 0, text.length, hashOf(table, text))
}
function found(table: TextTable, number: number): number {
  const text = textOf(number)
  return table.find(text, 0, text.length, hashOf(table, text))
}

/** The first of the numbers below `end` that are not found as themselves though they are there, or found though not. */
function wrong(end: number, find: (number: number) => number, isThere: (number: number) => boolean): number[] {
  const out: number[] = []
  for (let number = 0; number < end && out.length < 5; number++) if (find(number) !== (isThere(number) ? number : -1)) out.push(number)
  return out
}
const wrongTexts = (table: TextTable, count: number, end: number): number[] =>
  wrong(
    end,
    (number) => found(table, number),
    (number) => number < count,
  )

for (const memory of ['shared', 'local'] as const)
  t.test(`texts in ${memory} memory`, async (t) => {
    const reserved = random() < 0.5
    const table = new TextTable(KEY, memory)
    const first = below(MANY)
    const many = MANY * 5 + below(MANY)
    if (reserved) table.reserve(many, many * 10)
    for (let number = 0; number < first; number++) {
      add(table, number)
      table.index(number + 1)
    }
    for (let number = first; number < many; number++) add(table, number)
    t.same(wrongTexts(table, first, many), [])
    table.index(many)
    t.same(wrongTexts(table, many, many + 1000), [])
    for (let number = many; number < many * 2; number++) {
      add(table, number)
      table.index(number + 1)
    }
    t.same(wrongTexts(table, many * 2, many * 2 + 1000), [])
  })

t.test('the newest of many texts in local memory are taken out of their slots, and no other', async (t) => {
  const table = new TextTable(KEY, 'local')
  const many = MANY * 4 + below(MANY)
  for (let number = 0; number < many; number++) add(table, number)
  table.index(many)
  for (let left = many; left > 0; ) {
    left = Math.max(0, left - below(MANY * 2))
    table.truncate(left)
    t.same(wrongTexts(table, left, many), [])
  }
})

t.test('tuples, of which some were given back before and some after', async (t) => {
  const table = new TupleTable('shared')
  const tuple = (number: number): Int32Array => Int32Array.of(1, number, number + 1)
  // Few, so that many meet.
  const hash = (number: number): number => Math.imul(number % 50_000, 0x9e3779b1)
  const find = (number: number): number => table.find(tuple(number), 3, hash(number))
  const many = MANY * 8 + below(MANY)
  const first = below(1000)
  const gone = new Set<number>()
  if (random() < 0.5) table.reserve(many, many * 2)
  for (let number = 0; number < many; number++) {
    if (number === first) table.index(first)
    if (random() < 0.1) {
      gone.add(number)
      table.appendReleased()
    } else table.append(tuple(number), 3, hash(number))
  }
  for (let number = 0; number < many; number += 1 + below(50)) {
    if (table.measurement[number] === RELEASED) continue
    gone.add(number)
    table.remove(number)
  }
  table.index(many)
  const misplaced = (): number[] => wrong(table.count + 500, find, (number) => number < table.count && !gone.has(number))
  t.same(misplaced(), [])
  // Into the slots of those that were found before, and out of new ones.
  for (let number = 0; number < many; number += 1 + below(20)) {
    if (gone.has(number)) continue
    gone.add(number)
    table.remove(number)
  }
  t.same(misplaced(), [])
  for (let number = many; number < many * 2.5; number++) {
    table.append(tuple(number), 3, hash(number))
    table.index(number + 1)
  }
  t.same(misplaced(), [])
  t.ok(table.slots.filter((entry) => entry !== 0).length * 2 <= table.slots.length, 'at most half of the slots are taken')
})
