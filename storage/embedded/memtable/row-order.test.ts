import t from 'tap'
import { TestDatabase } from '../testing/engine-state.ts'
import { takePart } from '../threads/state.ts'
import { groupDuplicates, orderRows } from './row-order.ts'

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
