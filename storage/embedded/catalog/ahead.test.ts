/** Definitions of very many measurements are stored before the commit that needs them, in transactions of a bounded size; a crash between these loses nothing. */
import t from 'tap'
import { testContext } from '../../conformance/index.ts'
import { f64, fill, type TestPoint } from '../../conformance/points.ts'
import { EmbeddedEngine } from '../engine.ts'
import { realEnvironment } from '../environment.ts'
import { closeAndRemove, crashCopy, NOW, NOW_MS, openEngine, rowsOf, tempDir } from '../testing/harness.ts'

t.setTimeout(120_000)
const MEASUREMENTS = 2000
/** Definitions of a transaction, and what a commit stores beside them. */
const MOST_ENTRIES = 512 + 100
const name = (i: number): string => `m${i}`

async function write(engine: EmbeddedEngine, numbers: number[], fields: string[]): Promise<void> {
  const points = numbers.map(
    (i): TestPoint => ({
      measurement: name(i),
      tags: { host: 'a' },
      time: NOW + BigInt(i),
      fields: Object.fromEntries(fields.map((field) => [field, f64(i)])),
    }),
  )
  const { batch, refused } = fill(engine, points, '')
  if (refused.length > 0) throw new Error(JSON.stringify(refused[0]))
  await engine.write(batch)
}

/** An engine whose catalog tells how many entries each of its transactions writes. */
async function open(dir: string, told: (entries: number, bytes: number) => void): Promise<EmbeddedEngine> {
  const openStore: typeof realEnvironment.openStore = (path) => {
    const store = realEnvironment.openStore(path)
    const { batch, put } = store
    let [entries, bytes] = [0, 0]
    store.put = (key, value) => {
      entries++
      bytes += (value as Uint8Array).length
      return put.call(store, key, value)
    }
    store.batch = (body) => {
      entries = bytes = 0
      return batch.call(store, () => {
        body()
        told(entries, bytes)
      })
    }
    return store
  }
  const context = testContext({ data_dir: dir, soft_delete_ttl_secs: 3600 }, () => NOW_MS)
  const engine = new EmbeddedEngine(context, { openStore })
  await engine.open()
  return engine
}

t.test('very many measurements', async (t) => {
  const dir = tempDir()
  const copies: string[] = []
  let copying = false
  const sizes: number[] = []
  const engine = await open(dir, (entries) => {
    sizes.push(entries)
    if (copying && copies.length < 4) copies.push(crashCopy(dir))
  })
  const all = Array.from({ length: MEASUREMENTS }, (_, i) => i)
  // Of every tenth the rows are in a table of its own, the others share one.
  await write(
    engine,
    all.filter((i) => i % 10 !== 0),
    ['v'],
  )
  await write(
    engine,
    all.filter((i) => i % 10 === 0),
    ['v', 'w'],
  )
  await engine.drop('', name(7))
  await engine.drop('', name(9))
  await engine.restore('', name(9))
  sizes.length = 0
  copying = true
  await engine.flush()
  t.ok(sizes.length > MEASUREMENTS / 512, 'several transactions')
  t.ok(Math.max(...sizes) <= MOST_ENTRIES, `of a bounded size: ${Math.max(...sizes)}`)
  await closeAndRemove(engine)
  for (const copy of [...copies, dir]) {
    const again = await openEngine(copy, { soft_delete_ttl_secs: 3600 })
    t.same((await again.measurements('')).length, MEASUREMENTS - 1)
    for (const i of [0, 9, 1000, 1999]) t.match(await rowsOf(again, name(i)), [new RegExp(`^a ${NOW + BigInt(i)} v=${i}`)])
    await again.restore('', name(7))
    t.match(await rowsOf(again, name(7)), [/ v=7$/])
    await closeAndRemove(again, copy)
  }
})

t.test('measurements of very many fields: their definitions are stored in parts, too', async (t) => {
  const dir = tempDir()
  const sizes: number[] = []
  const engine = await open(dir, (_, bytes) => void sizes.push(bytes))
  const fields = Array.from({ length: 500 }, (_, i) => `field_${i}`)
  const numbers = Array.from({ length: 150 }, (_, i) => i)
  for (let from = 0; from < numbers.length; from += 10) await write(engine, numbers.slice(from, from + 10), fields)
  await engine.flush()
  sizes.length = 0
  await write(engine, numbers, ['another'])
  await engine.flush()
  const all = sizes.reduce((sum, size) => sum + size, 0)
  t.ok(sizes.length > 2 && Math.max(...sizes) < all / 2, `${sizes} bytes`)
  await closeAndRemove(engine)
  const again = await openEngine(dir)
  const known = await again.measurements('')
  t.same(
    known.map((measurement) => measurement.fields.length),
    numbers.map(() => fields.length + 1),
  )
  await closeAndRemove(again, dir)
})
