/** What no open batch names is given back while batches overlap, so that none of the times falls at which no batch is open. */
import type { WriteBatch } from 'svcdb/lib/columns'
import type { SvcError } from 'svcdb/lib/errors'
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { testContext } from '../../conformance/index.ts'
import { EmbeddedEngine } from '../engine.ts'
import { closeAndRemove, NOW, NOW_MS, openEngine, rowsOf, tempDir } from '../testing/harness.ts'

t.setTimeout(120_000)
const seed = Number(process.env.SVC_SEED ?? Date.now() % 1e9)
const HOUR_MS = 3_600_000
const HOUR = 3_600_000_000_000n
const BUDGET = 10
const ROUNDS = BUDGET * 4

const filled = (engine: EmbeddedEngine, host: string, time: bigint): WriteBatch => {
  const batch = engine.batch('')
  row(engine, batch, seriesOf(engine, host), time, 1)
  return batch
}

const seriesOf = (engine: EmbeddedEngine, host: string): number => engine.resolver.series(engine.resolver.measurement('', 'm'), ['host', host])

function row(engine: EmbeddedEngine, batch: WriteBatch, series: number, time: bigint, value: number): void {
  const table = batch.table(engine.resolver.measurement('', 'm'))
  const at = table.addRow(series, Number(BigInt.asIntN(32, time)), Number(time >> 32n), 0)
  table.column('v', 'float64').setF64(at, value)
}

t.test('refused series give their budget back', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir, { max_series_cardinality: BUDGET })
  t.teardown(() => closeAndRemove(engine, dir))
  t.match(await engine.write(filled(engine, 'first', NOW)), { written: 1 })
  let open = filled(engine, 'old', NOW - 1000n * HOUR)
  for (let i = 0; i < ROUNDS; i++) {
    const next = filled(engine, `old ${i}`, NOW - 1000n * HOUR)
    t.match(await engine.write(open), { written: 0, rejected: 1 })
    open = next
  }
  t.match(await engine.write(filled(engine, 'good', NOW)), { written: 1 })
  engine.recycle(open)
  t.equal((await engine.usage('')).series, 2)
})

t.test('expired series give their budget back', async (t) => {
  const dir = tempDir()
  const clock = { ms: NOW_MS }
  const config = { data_dir: dir, max_series_cardinality: BUDGET, retention_secs: 3600, maintenance_interval_secs: 3600 }
  const engine = new EmbeddedEngine(testContext(config, () => clock.ms))
  await engine.open()
  t.teardown(() => closeAndRemove(engine, dir))
  let open = filled(engine, 'first', NOW)
  for (let i = 0; i < ROUNDS; i++) {
    clock.ms += HOUR_MS
    const next = filled(engine, `h${i}`, NOW + BigInt(i + 1) * HOUR)
    t.match(await engine.write(open), { written: 1 }, `round ${i}`)
    open = next
    await engine.tidy()
  }
  t.match(await engine.write(open), { written: 1 })
})

t.test('a deleted series stays for as long as an open batch has a row of it', async (t) => {
  const dir = tempDir()
  const engine = await openEngine(dir, { maintenance_interval_secs: 3600 })
  t.teardown(() => closeAndRemove(engine, dir))
  for (const host of ['a', 'b']) await engine.write(filled(engine, host, NOW))
  const before = filled(engine, 'c', NOW)
  await engine.delete({ namespace: '', measurement: 'm' })
  const after = filled(engine, 'a', NOW + 1n)
  await engine.write(before)
  const { epoch } = engine.resolver
  await engine.tidy()
  t.ok(engine.resolver.epoch > epoch, 'decoders forget the other one')
  t.equal((await engine.usage('')).series, 2)
  t.match(await engine.write(after), { written: 1 })
  await engine.tidy()
  t.same(await rowsOf(engine, 'm'), [`a ${NOW + 1n} v=1`, `c ${NOW} v=1`])
})

t.test(`no row comes under another series, and none of a decoder that looks at the epoch is refused, SVC_SEED=${seed}`, async (t) => {
  const HOSTS = 30
  for (let round = 0; round < 3; round++) {
    const random = seeded(seed + round)
    const pick = (n: number): number => Math.floor(random() * n)
    const dir = tempDir()
    const engine = await openEngine(dir, { maintenance_interval_secs: 3600 })
    const open: { batch: WriteBatch; old: number; careless: number }[] = []
    const cache = new Map<string, number>()
    let { epoch } = engine.resolver
    let time = NOW
    let stale = 0
    let refused = 0
    const number = (host: string): number => {
      if (epoch !== engine.resolver.epoch) cache.clear()
      ;({ epoch } = engine.resolver)
      const known = cache.get(host) ?? seriesOf(engine, host)
      cache.set(host, known)
      return known
    }
    const held: { host: number; series: number }[] = []
    const end = async (): Promise<void> => {
      const [{ batch, old, careless }] = open.splice(pick(open.length), 1)
      const { rows } = batch
      try {
        const { written, rejected } = await engine.write(batch)
        refused += rejected
        t.equal(written + rejected, rows)
        if (rejected > old) t.fail(`SVC_SEED=${seed + round}: ${rejected} rows were refused, ${old} are too old`)
      } catch (error) {
        stale++
        if ((error as SvcError).code !== 'BACKPRESSURE' || careless === 0) throw error
      }
    }
    for (let step = 0; step < 400; step++) {
      const what = random()
      if (open.length < 2 || what < 0.15) open.push({ batch: engine.batch(''), old: 0, careless: 0 })
      const one = open[pick(open.length)]
      if (what < 0.6) {
        const host = pick(HOSTS)
        // Of an old time: refused, so that series go that were only named.
        const old = random() < 0.3
        row(engine, one.batch, number(`h${host}`), old ? NOW - 1000n * HOUR : ++time, host)
        if (old) one.old++
      } else if (what < 0.65) {
        const host = pick(HOSTS)
        held.push({ host, series: number(`h${host}`) })
      } else if (what < 0.7 && held.length > 0) {
        const [{ host, series }] = held.splice(pick(held.length), 1)
        row(engine, one.batch, series, ++time, host)
        one.careless++
      } else if (what < 0.85 && open.length > 2) await end()
      else if (what < 0.95)
        await engine.delete({ namespace: '', measurement: 'm', matchers: [{ tag: 'host', op: '=~', value: `h.*${pick(10)}` }] }).catch(() => {})
      else await engine.tidy()
    }
    while (open.length > 0) await end()
    for (const each of await rowsOf(engine, 'm')) if (!/^h(\d+) \d+ v=\1$/.test(each)) t.fail(`SVC_SEED=${seed + round}: ${each}`)
    t.comment(`${refused} rows were refused, ${stale} batches as a whole`)
    t.ok(refused > 0)
    await closeAndRemove(engine, dir)
  }
})
