import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { TestDatabase } from '../testing/engine-state.ts'
import { ROW_BITS } from '../threads/memtable-layout.ts'
import { takePart } from '../threads/state.ts'
import { groupDuplicates, orderPositions, orderRows } from './row-order.ts'

const NOW = 1_700_000_000_000_000_000n

t.test('a few rows of a few series among many are ordered as all are', async (t) => {
  const seed = Date.now() % 1_000_000
  let state = seed
  const below = (n: number): number => Math.floor(((state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32) * n)
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const own = db.measurement('own', { a: 'float64', b: 'int64' })
  const others = db.measurement('others', { a: 'float64' })
  // Every other series of the first few, then one of many thousand.
  for (let i = 0; i < 20_000; i++) db.series(i < 20 && i % 2 === 0 ? own : others, { host: String(i) })
  const last = db.series(own, { host: 'last' })
  t.ok(last >= 20_000)
  for (let i = 0; i < 300; i++) {
    const host = below(11)
    db.write(own, [
      { tags: { host: host === 10 ? 'last' : String(host * 2) }, time: NOW + BigInt(below(40)), fields: { a: i, ...(below(2) === 0 ? { b: 1n } : {}) } },
    ])
  }
  const memtable = db.state.memtable(db.freeze())
  const part = takePart(memtable, memtable.tables.get(own.table.id)!)
  const range = { lo: NOW + 5n, hi: NOW + 30n }
  for (const filter of [{}, range]) {
    const found = orderRows(part, filter)
    // What is given the measurements counts the rows by series, whatever their numbers; all are of one.
    const expected = orderRows(part, filter, new Int32Array(last + 1))
    t.same(found, expected, `seed ${seed}`)
    t.ok(found.duplicates)
    t.same(groupDuplicates(part.chunks, found), groupDuplicates(part.chunks, expected))
  }
  t.same(orderRows(part, { series: new Uint8Array(last + 1) }).rows.length, 0)
})

t.test('rows of a shared table go by measurement, whatever the numbers of measurements', (t) => {
  const seed = Number(process.env.SVC_SEED ?? Date.now() % 1_000_000)
  const random = seeded(seed)
  const below = (n: number): number => Math.floor(random() * n)
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const own = db.measurement('own', { a: 'float64' }, { shared: 7 })
  const hosts = Array.from({ length: 200 }, (_, i) => db.series(own, { host: String(i) }))
  for (let i = 0; i < 1000; i++) db.write(own, [{ tags: { host: String(i < 200 ? i : below(200)) }, time: NOW + BigInt(i), fields: { a: i } }])
  const memtable = db.state.memtable(db.freeze())
  const part = takePart(memtable, memtable.tables.get(7)!)
  const rowsOf = new Map<number, number[]>()
  part.chunks.forEach((chunk, c) => {
    for (let row = 0; row < part.counts[c]; row++) rowsOf.set(chunk.series[row], [...(rowsOf.get(chunk.series[row]) ?? []), (c << ROW_BITS) | row])
  })
  const check = (measurements: Int32Array, what: string): void => {
    const expected = [...hosts].sort((a, b) => measurements[a] - measurements[b] || a - b)
    const { series, starts, rows } = orderRows(part, {}, measurements)
    t.same([...series], expected, what)
    for (let i = 0; i < series.length; i++) t.same([...rows.subarray(starts[i], starts[i + 1])], rowsOf.get(series[i]), `rows, ${what}`)
  }
  const three = new Int32Array(200).fill(1)
  three.set([2 ** 21, 2 ** 21, 2 ** 21 + 1], 100)
  check(three, 'three beyond 2^21')
  for (const most of [3, 2 ** 16 + 2, 2 ** 22, 2 ** 31])
    for (let run = 0; run < 3; run++) {
      const first = below(most - 2)
      const numbers = Int32Array.from({ length: 200 }, () => (run === 0 ? first + below(3) : below(most)))
      check(numbers, `numbers up to ${most}, seed ${seed}`)
    }
  t.end()
})

t.test('rows of more chunks than one memtable has are in order of arrival, too', (t) => {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const own = db.measurement('own', { a: 'float64' })
  const [later, earlier] = [1n, 0n].map((time) => {
    db.write(own, [{ time: NOW + time, fields: { a: 1 } }])
    const memtable = db.state.memtable(db.freeze())
    return memtable.tables.get(own.table.id)!.chunks[0]
  })
  const chunks = Array.from({ length: 40_000 }, (_, c) => (c % 2 === 0 ? later : earlier))
  const counts = chunks.map(() => 1)
  const numbers = chunks.map((_, c) => c)
  const expected = [...numbers.filter((c) => c % 2 === 1), ...numbers.filter((c) => c % 2 === 0)]
  const placesOf = (rows: Int32Array): number[] => Array.from(rows, (position) => position >>> ROW_BITS)
  t.same(placesOf(orderRows({ chunks, counts }).rows), expected)
  const positions = Int32Array.from(numbers, (c) => c << ROW_BITS)
  t.same(placesOf(orderPositions(chunks, positions, [NOW, NOW + 1n]).rows), expected)
  t.end()
})
