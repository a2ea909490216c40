/** Which definitions are stored before a commit, how many at once, and that those of a transaction that fails stay marked. With rows: ahead.test.ts. */
import t from 'tap'
import type { Drops } from '../retention/drops.ts'
import { Tombstones } from '../retention/tombstones.ts'
import type { FieldDef } from '../threads/definitions.ts'
import { CatalogAhead } from './ahead.ts'
import { Schema } from './schema.ts'
import { Unstored } from './unstored.ts'

/** Weight of a transaction, and how many fields count as one entry. */
const MOST = 512
const FIELDS = 64

type Dependencies = ConstructorParameters<typeof CatalogAhead>[0]

/** Marked measurements with tables of their own, each with so many fields. */
function stage(count: number, fields = 2) {
  const schema = new Schema()
  const unstored = new Unstored()
  const defs = Array.from({ length: fields }, (_, id): FieldDef => ({ id, name: `f${id}`, column: `f${id}`, type: 'float64', scale: 0 }))
  const all = Array.from({ length: count }, (_, id) => id)
  schema.restore(
    all.map((id) => ({ id, measurement: id, fields: defs })),
    all.map((id) => ({ id, namespace: '', name: `m${id}`, fields: defs, tables: [id] })),
  )
  for (const id of all) for (const kind of ['measurement', 'table'] as const) unstored.mark(kind, id)
  const failing = { log: false, store: false }
  /** Keys with a value, of each transaction. */
  const stored: string[][] = []
  const catalog = {
    unstoredBlocks: () => 0,
    async storeEntries(make: () => [string, unknown][], settled: () => void, ready: () => Promise<void>) {
      const entries = make()
      await ready()
      if (failing.store) throw new Error('no space')
      stored.push(entries.flatMap(([key, value]) => (value === undefined ? [] : [key])))
      settled()
    },
  }
  const wal = {
    async settled() {
      if (failing.log) throw new Error('the log is broken')
    },
  }
  const tombstones = new Tombstones(unstored, () => {})
  const dependencies = { catalog, schema, drops: { pending: new Map() } as unknown as Drops, unstored, tombstones, wal } as unknown as Dependencies
  const left = () => (['measurement', 'table'] as const).map((kind) => unstored.countOf(kind))
  return { schema, unstored, ahead: new CatalogAhead(dependencies), failing, stored, left }
}

t.test('a transaction that fails leaves all marks, and so does a log that could lose what is stored', async (t) => {
  const { ahead, failing, stored, left } = stage(600)
  failing.store = true
  await t.rejects(ahead.store(), { message: 'no space' })
  t.same(left(), [600, 600])
  failing.store = false
  failing.log = true
  await t.rejects(ahead.store(), { message: 'the log is broken' })
  t.same([left(), stored], [[600, 600], []])
  failing.log = false
  await ahead.store()
  const [measurements, tables] = left()
  t.ok(measurements + tables <= MOST, 'what is left is for the commit')
  t.equal(stored.flat().length, 1200 - measurements - tables)
  t.equal(new Set(stored.flat()).size, stored.flat().length)
})

t.test('transactions are bounded by entries and by their fields', async (t) => {
  for (const fields of [2, 8 * FIELDS]) {
    const { ahead, stored } = stage(300, fields)
    await ahead.store()
    t.ok(stored.length > 0)
    // The last one may have more than what is left for it.
    for (const entries of stored) t.ok((entries.length - 1) * (1 + fields / FIELDS) <= MOST, `${entries.length} entries of ${fields} fields`)
  }
})

t.test('of what is being dropped, or was, nothing is stored before the commit that says so', async (t) => {
  const { ahead, schema, unstored, stored } = stage(600)
  unstored.mark('drop', 0)
  schema.hide(schema.resolve('', 'm1'))
  for (let i = 0; i < 10; i++) {
    for (let id = 0; id < 600; id++) for (const kind of ['measurement', 'table'] as const) unstored.mark(kind, id)
    await ahead.store()
  }
  for (const id of [0, 1]) for (const kind of ['measurement', 'table'] as const) t.ok(unstored.has(kind, id), `${kind} ${id}`)
  const ids = new Set(stored.flat().map((key) => Number(/\d+$/.exec(key)?.[0])))
  t.ok(ids.has(2))
  t.notOk(ids.has(0) || ids.has(1))
})
