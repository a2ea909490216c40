/** What an edge keeps in memory of series and fields has a bound, whatever writers name; what it forgets it sends all the same. */
import { temporaryFolder } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { f64, i64, lines, NOW, write } from '../conformance/points.ts'
import { edgeOf, upstream } from './testing.ts'

const BOUND = 100_000

async function edge(t: Test) {
  const { node, url } = await upstream(t, { config: { server: { allow_open: true } } })
  const engine = edgeOf({ data_dir: temporaryFolder(t), forward: { upstream: [{ name: 'one', url }], max_cached_bytes: BOUND } })
  await engine.open()
  t.teardown(() => engine.close())
  const fields = async () => (await engine.measurements('')).reduce((sum, { fields }) => sum + fields.length, 0)
  return { engine, fields, stored: async (measurement: string) => (await lines(node.storage, { namespace: '', measurement })).length }
}

/** More than 100 bytes each. */
const fieldsOf = (from: number, count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`field_${from + i}`, f64(i)]))

t.test('fields of ever new measurements', async (t) => {
  const { engine, fields, stored } = await edge(t)
  let most = 0
  for (let n = 0; n < 20; n++) {
    await write(engine, [{ measurement: `m${n}`, tags: {}, time: NOW, fields: fieldsOf(0, 100) }], { namespace: '' })
    most = Math.max(most, await fields())
  }
  t.ok(most >= 500, `${most} fields were known`)
  t.ok(most <= BOUND / 100 + 100, `${most} fields were known`)
  await engine.drained()
  for (let n = 0; n < 20; n++) t.equal(await stored(`m${n}`), 1)
})

t.test('ever new fields of measurements that are known, while another batch is open', async (t) => {
  const { engine, fields, stored } = await edge(t)
  const open = engine.batch('')
  const others = open.table(engine.resolver.measurement('', 'm0'))
  others.addRow(engine.resolver.series(others.measurement as never, ['host', 'a']), 0, 0, 0)
  let most = 0
  for (let round = 0; round < 10; round++) {
    for (let n = 0; n < 4; n++)
      await write(engine, [{ measurement: `m${n}`, tags: {}, time: NOW + BigInt(round), fields: fieldsOf(round * 50, 50) }], { namespace: '' })
    most = Math.max(most, await fields())
  }
  t.ok(most <= BOUND / 100 + 100, `${most} fields were known`)
  engine.recycle(open)
  await engine.drained()
  t.equal(await stored('m0'), 10)
})

t.test('series with long tags', async (t) => {
  const { engine, stored } = await edge(t)
  let most = 0
  for (let n = 0; n < 40; n++) {
    await write(engine, [{ measurement: 'cpu', tags: { host: `${n}`.padEnd(4000, 'x') }, time: NOW, fields: { v: i64(1n) } }], { namespace: '' })
    most = Math.max(most, (await engine.usage('')).series)
  }
  t.ok(most >= 5 && most <= BOUND / 4000, `${most} series were known`)
  await engine.drained()
  t.equal(await stored('cpu'), 40)
})
