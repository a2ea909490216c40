/** What is written at the edge is what the upstream has, of every type; the suite is in conformance.test.ts. */

import { emptyHistogram, encodeHistogram, staleHistogram } from 'svcdb/lib/histogram'
import { temporaryFolder } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { bits, bool, dec, f64, hist, INFINITE, i64, lines, NAN, STALE, str, type TestPoint, u64, write } from '../conformance/points.ts'
import { edgeOf, upstream } from './testing.ts'

async function pair(t: Test, compression: string) {
  const { node, url } = await upstream(t, { config: { server: { allow_open: true } } })
  const edge = edgeOf({ data_dir: temporaryFolder(t), forward: { compression, upstream: [{ name: 'upstream', url }] } })
  await edge.open()
  t.teardown(() => edge.close())
  return { edge, node }
}

t.test('non-finite values, staleness markers, the time 0 and columns with gaps arrive as they were written', async (t) => {
  const { edge, node } = await pair(t, 'zstd')
  const histogram = encodeHistogram({
    ...emptyHistogram(),
    count: 3,
    sum: 4.5,
    positiveSpans: [{ offset: 0, length: 2 }],
    positiveCounts: Float64Array.of(1, 2),
  } as never)
  const fields: TestPoint['fields'][] = [
    { v: bits(STALE), n: i64(-(2n ** 63n)) },
    { v: bits(NAN), u: u64(2n ** 64n - 1n), h: hist(staleHistogram()) },
    { v: bits(INFINITE), s: str('é\n"') },
    { v: f64(-0), d: dec('-0.00010'), h: hist(histogram) },
    { v: f64(5e-324), n: i64(2n ** 63n - 1n), u: u64(0n), b: bool(true), s: str(''), d: dec(`${'9'.repeat(28)}.9999999999`) },
    { v: f64(Number.MAX_VALUE), n: i64(2n ** 53n + 1n), b: bool(false), s: str('x'.repeat(65_536)), d: dec('0') },
    { d: dec('12345678901234567890123456789.123456789') },
  ]
  const points = fields.map((one, i) => ({ measurement: 'm', tags: { host: `h${i % 2}` }, time: BigInt(i) * 1000n, fields: one }))
  t.match(await write(edge, points, { namespace: '', nonFinite: true, backfill: true }), { written: fields.length, rejected: 0 })
  await edge.drained()
  const direct = await upstream(t, { config: { server: { allow_open: true } } })
  await write(direct.node.storage, points, { namespace: '', nonFinite: true, backfill: true })
  const all = async (storage: typeof node.storage) => {
    const samples = await storage
      .run(new URL('../conformance/jobs/samples.ts', import.meta.url), { namespace: '', measurement: 'm', field: 'v' } as never)
      .result.catch((error) => String(error))
    return [await lines(storage, { namespace: '', measurement: 'm' }), samples]
  }
  const [expected, arrived] = [await all(direct.node.storage), await all(node.storage)]
  t.same(arrived, expected)
  t.equal((arrived[0] as string[]).length > 2, true)
})

t.test('an edge without points to read says where they are', async (t) => {
  const { edge } = await pair(t, 'none')
  const refused = { code: 'METHOD_NOT_ALLOWED', message: /on this node: its storage engine "forward" .* ask the upstream node/ }
  await t.rejects(lines(edge, { measurement: 'm' }), refused)
  await t.rejects(edge.delete(), refused)
  await t.rejects(edge.drop(), refused)
  t.throws(() => edge.run(), refused)
  t.throws(() => edge.changes(), refused)
})
