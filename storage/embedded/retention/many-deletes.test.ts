import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { closeAndRemove, NOW, openEngine, rowsOf, tempDir, writeFloat } from '../testing/harness.ts'

const HOSTS = 24
const TIMES = 40
const SEGMENTS = 8
/** As many as one file bears before it is written again. */
const DELETES = 60

t.test('many small deletes cost a query neither rows nor its memory', async (t) => {
  const dir = tempDir()
  const memory = { per_query_memory_limit: 64 << 20, query_threads: 1, query_parallelism: 2 }
  let engine = await openEngine(dir, { ...memory, compaction_fan_in: 64 })
  t.teardown(() => closeAndRemove(engine, dir))
  const expected = new Map<string, string>()
  const write = async (value: number): Promise<void> => {
    const writes: Promise<unknown>[] = []
    for (let host = 0; host < HOSTS; host++)
      for (let time = 0; time < TIMES; time++) {
        writes.push(writeFloat(engine, 'm', `h${host}`, NOW + BigInt(time), { v: value }))
        expected.set(`${host} ${time}`, `h${host} ${NOW + BigInt(time)} v=${value}`)
      }
    await Promise.all(writes)
  }
  for (let segment = 0; segment < SEGMENTS; segment++) {
    await write(segment)
    await engine.flush()
  }
  for (let i = 0; i < DELETES; i++) {
    // Another set of series and another range each time.
    const hosts = Array.from({ length: HOSTS }, (_, host) => host).filter((host) => (host * 7 + i * 5) % 11 < 4)
    const [from, to] = [(i * 3) % TIMES, Math.min(TIMES, ((i * 3) % TIMES) + 2)]
    const matchers = [{ tag: 'host', op: '=~' as const, value: hosts.map((host) => `h${host}`).join('|') }]
    await engine.delete({ namespace: '', measurement: 'm', matchers, start: NOW + BigInt(from), end: NOW + BigInt(to) })
    for (const host of hosts) for (let time = from; time < to; time++) expected.delete(`${host} ${time}`)
  }
  t.ok(expected.size > 0 && expected.size < HOSTS * TIMES)
  t.same(await rowsOf(engine, 'm'), [...expected.values()].sort())
  t.equal((await engine.explain({ namespace: '', measurement: 'm' })).segments.read, SEGMENTS)
  await engine.close()
  engine = await openEngine(dir, { ...memory, compaction_fan_in: 2, deleted_rows_rewrite_secs: 0, maintenance_interval_secs: 1 })
  await write(99)
  t.same(await rowsOf(engine, 'm'), [...expected.values()].sort(), 'what is written again is seen')
  await engine.flush()
  const segments = async (): Promise<number> => (await engine.explain({ namespace: '', measurement: 'm' })).segments.total
  for (let i = 0; i < 300 && (await segments()) > 2; i++) await setTimeout(100)
  t.ok((await segments()) <= 2, 'merges take them out within the same memory')
  t.same(await rowsOf(engine, 'm'), [...expected.values()].sort())
})
