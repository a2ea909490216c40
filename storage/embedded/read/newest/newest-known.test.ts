/** What is known of newest rows when sources come, go and are read in an order that random lives seldom have. */
import t, { type Test } from 'tap'
import { TestDatabase, type TestMeasurement } from '../../testing/engine-state.ts'
import type { Snapshot } from '../../threads/state.ts'
import type { RelationContext } from '../relation.ts'
import { selectSamples } from '../samples/select.ts'

const MS = 1_000_000n
const START = 1_700_000_000_000n * MS
const FIRST = Number(START / MS)

async function started(t: Test) {
  const db = new TestDatabase()
  t.teardown(() => db.close())
  const cpu = db.measurement('cpu', { f: 'float64' })
  const context = await db.context()
  const now = (): Snapshot => db.state.snapshotNow() as Snapshot
  const write = (host: string, time: number, f: number, measurement: TestMeasurement = cpu): void =>
    db.write(measurement, [{ tags: { host }, time: START + BigInt(time) * MS, fields: { f } }])
  /** Time and value of each series' newest row from a time on. */
  const newest = async (snapshot = now(), from = -1_000_000, verifier: RelationContext['verifier'] = undefined): Promise<[number, number][]> => {
    const request = { namespace: 'default', measurement: 'cpu', field: 'f', newestOnly: true, start: START + BigInt(from) * MS }
    const found: [number, number][] = []
    const { blocks } = await selectSamples({ ...context, ...(verifier === undefined ? {} : { verifier }) }, snapshot, request, undefined)
    for await (const { starts, times, values } of blocks()) for (let i = 0; i < starts[starts.length - 1]; i++) found.push([times[i] - FIRST, values[i]])
    return found
  }
  return { db, cpu, now, write, newest }
}

t.test('a reader gets no row that came behind its snapshot, though it is known by then', async (t) => {
  const { write, newest, now } = await started(t)
  write('a', 1, 1)
  write('b', 1, 1)
  t.same(await newest(), [
    [1, 1],
    [1, 1],
  ])
  const old = now()
  write('a', 2, 2)
  t.same(await newest(), [
    [2, 2],
    [1, 1],
  ])
  t.same(await newest(old), [
    [1, 1],
    [1, 1],
  ])
  t.same(await newest(), [
    [2, 2],
    [1, 1],
  ])
})

t.test('of rows of one time in several memtables the one that was written last is taken in last', async (t) => {
  const { db, write, newest } = await started(t)
  write('a', 0, 0)
  t.same(await newest(), [[0, 0]])
  for (const f of [1, 2, 3]) {
    write('a', 1, f)
    db.freeze()
  }
  t.same(await newest(), [[1, 3]])
})

t.test('a segment that goes by itself takes its rows with it, and one that comes by itself brings them', async (t) => {
  const { db, write, newest } = await started(t)
  write('a', 1, 1)
  write('b', 1, 1)
  await db.flush()
  write('a', 2, 2)
  const added = await db.flush()
  const old: [number, number][] = [
    [1, 1],
    [1, 1],
  ]
  const all: [number, number][] = [
    [2, 2],
    [1, 1],
  ]
  t.same(await newest(), all)
  db.publish({ kind: 'segments', added: [], removed: added.map(({ id }) => id), droppedMemtable: -1 })
  t.same(await newest(), old)
  db.publish({ kind: 'segments', added, removed: [], droppedMemtable: -1 })
  t.same(await newest(), all)
})

t.test('rows that come while older ones are looked for are not forgotten for them', async (t) => {
  const { db, write, newest, now } = await started(t)
  write('a', 1, 1)
  write('b', 500, 5)
  await db.flush()
  t.same(await newest(now(), 400), [[500, 5]])
  const [held, reached] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const wait = (): Promise<void> => {
    reached.resolve()
    return held.promise
  }
  const looking = newest(now(), 0, { ensure: wait, ensureSources: wait, require: () => {} })
  await reached.promise
  write('a', 600, 6)
  const later = newest(now(), 0)
  write('a', 700, 7)
  const latest = newest(now(), 0)
  held.resolve()
  t.same(await looking, [
    [1, 1],
    [500, 5],
  ])
  t.same(await later, [
    [600, 6],
    [500, 5],
  ])
  for (const found of [latest, newest(now(), 0)])
    t.same(await found, [
      [700, 7],
      [500, 5],
    ])
})
