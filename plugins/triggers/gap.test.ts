import { setTimeout } from 'node:timers/promises'
import { seeded } from 'svcdb/lib/random'
import { resolveConfig, SvcNode, type TestNode, temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { asked, type TriggerNode } from './testing.ts'

const SEED = Number(process.env.SVC_SEED ?? Date.now() % 1_000_000)
const ROUNDS = Number(process.env.SVC_STEPS ?? 3)
/** The log holds next to nothing. */
const DATABASE = { cdc_capacity: 16, cdc_log_size: 0, wal_max_file_size: 65_536 }

async function open(
  directory: string,
  plugins: readonly string[],
  section: object = {},
): Promise<TriggerNode & { stop(): Promise<void>; flush(): Promise<void> }> {
  const own = plugins.includes('triggers') ? { triggers: section } : {}
  const tree = { plugins: ['line_protocol', 'native', ...plugins], ...own, database: DATABASE, server: { http_addr: '127.0.0.1:0', log_level: 'error' } }
  const overrides = new Map(
    Object.entries({ engine: 'embedded', data_dir: directory, warm_up_ms: '0' }).map(([key, text]) => [`database.${key}`, { text, from: 'the test' }]),
  )
  const node = new SvcNode(await resolveConfig({ tree, file: 'the test', folder: process.cwd(), overrides }))
  await node.setup()
  await node.start()
  return {
    ...asked({ inject: (request: string) => node.app.inject(request) } as unknown as TestNode),
    stop: async () => {
      const failures = await node.stop()
      if (failures.length > 0) throw failures[0]
    },
    flush: () => (node.storage as TestNode['storage']).flush(),
  }
}

const metric = async (node: TriggerNode, name: string): Promise<number> => {
  const { body } = await node.node.inject('/metrics')
  return Number(body.split('\n').find((text) => text.startsWith(`svc_${name} `))?.split(' ')[1]) // biome-ignore format: one expression
}

/** Enough for the log to lose what was written before. */
async function overrun(node: { write: TriggerNode['write']; flush(): Promise<void> }, now: number): Promise<void> {
  for (let i = 0; i < 20; i++)
    await node.write(Array.from({ length: 500 }, (_, n) => `noise,host=h${n % 7} v=${i * 500 + n},text="${'x'.repeat(20)}" ${BigInt(now) * 1_000_000n + BigInt(i * 500 + n)}`)) // biome-ignore format: a line
  await node.flush()
}

const summary = (signals: Awaited<ReturnType<TriggerNode['signals']>>): string[] =>
  signals.map(({ trigger_name, tags, timestamp, value }) => `${trigger_name} ${tags.host} ${Math.round(timestamp / 1e9)} ${value}`).sort()

t.setTimeout(300_000)
t.test('what was written while nobody judged fires later, all kinds of numbers, each point once', async (t) => {
  t.comment(`SVC_SEED=${SEED} SVC_STEPS=${ROUNDS}`)
  const random = seeded(SEED)
  const below = (n: number): number => Math.floor(random() * n)
  const directory = temporaryFolder(t)
  let node = await open(directory, ['triggers'])
  const base = Math.ceil(Date.now() / 1000)
  const at = (seconds: number): bigint => BigInt(base + seconds) * 1_000_000_000n
  for (const query of [
    "CREATE TRIGGER f ON m WHEN f > 90 COOLDOWN INTERVAL '0s'",
    "CREATE TRIGGER i ON m WHEN i >= 90 AND host <> 'h1' COOLDOWN INTERVAL '0s'",
    "CREATE TRIGGER d ON m WHEN d > 90.5 OR b = 1 COOLDOWN INTERVAL '0s'",
    "CREATE TRIGGER off ON m WHEN f > 0 COOLDOWN INTERVAL '0s'",
    'ALTER TRIGGER off DISABLE',
  ])
    t.equal((await node.run(query)).status, 200, query)
  const expected: string[] = []
  let second = 0
  const write = async (): Promise<void> => {
    const lines = Array.from({ length: 40 }, () => {
      const [host, f, i, d, b] = [`h${below(3)}`, below(100), below(100), `${below(100)}.${below(10)}`, below(20) === 0]
      const time = ++second
      if (f > 90) expected.push(`f ${host} ${base + time} ${f}`)
      if (i >= 90 && host !== 'h1') expected.push(`i ${host} ${base + time} ${i}`)
      if (Number(d) > 90.5 || b) expected.push(`d ${host} ${base + time} ${Number(d) > 90.5 ? Number(d) : 1}`)
      return `m,host=${host} f=${f},i=${i}i,d=${d}d,b=${b},s="text" ${at(time)}`
    })
    await node.write(lines)
  }
  let gaps = 0
  for (let round = 0; round < ROUNDS; round++) {
    await write()
    await node.settled(expected.length)
    await node.stop()
    node = await open(directory, [])
    await write()
    await overrun(node, Date.now())
    await write()
    await node.stop()
    node = await open(directory, ['triggers'])
    await write()
    t.same(summary(await node.settled(expected.length)), expected.toSorted(), `round ${round}`)
    gaps += await metric(node, 'trigger_gaps_total')
    t.ok((await metric(node, 'trigger_stored_rows_judged_total')) >= 80, 'rows of the store are counted')
  }
  t.equal(gaps, ROUNDS, 'each time there was a gap')
  await node.stop()
})

t.test('cooldowns hold over a gap, and what is older than its trigger does not fire', async (t) => {
  const directory = temporaryFolder(t)
  const base = Math.floor(Date.now() / 1000)
  const line = (host: string, seconds: number): string => `m,host=${host} v=2 ${BigInt(base + seconds) * 1_000_000_000n}`
  let node = await open(directory, [])
  await node.write(line('before', -100))
  await node.stop()
  node = await open(directory, ['triggers'])
  t.equal((await node.run("CREATE TRIGGER v ON m WHEN v > 1 COOLDOWN INTERVAL '60s'")).status, 200)
  await node.write(line('a', 100))
  await node.settled(1)
  await node.stop()
  node = await open(directory, [])
  await node.write([line('a', 130), line('a', 161), line('late', -50), line('b', 50), line('b', 70), line('b', 120)])
  await overrun(node, Date.now())
  await node.stop()
  node = await open(directory, ['triggers'])
  const fired = ['v a 100', 'v a 161', 'v b 50', 'v b 120'].map((each) => each.replace(/\d+$/, (digits) => `${base + Number(digits)} 2`))
  t.same(summary(await node.settled(4)), fired.sort())
  t.equal(await metric(node, 'trigger_gaps_total'), 1)
  await node.write([line('a', 100), line('a', 161), line('b', 50), line('c', 10)])
  t.same(summary(await node.settled(5)), [...fired, `v c ${base + 10} 2`].sort(), 'and nothing fires twice when it is written again')
  await node.stop()
})

t.test('what is older than gap_lookback_secs before the gap does not fire', async (t) => {
  const directory = temporaryFolder(t)
  const line = (host: string, ms: number): string => `m,host=${host} v=2 ${BigInt(ms) * 1_000_000n}`
  let node = await open(directory, ['triggers'])
  t.equal((await node.run('CREATE TRIGGER v ON m WHEN v > 1')).status, 200)
  const created = Date.now()
  await setTimeout(2500)
  await node.write(line('a', Date.now()))
  await node.settled(1)
  await node.stop()
  node = await open(directory, [])
  await node.write([line('late', created + 1), line('new', Date.now())])
  await overrun(node, Date.now())
  await node.stop()
  node = await open(directory, ['triggers'], { gap_lookback_secs: 1 })
  t.same((await node.settled(2)).map(({ tags }) => tags.host).sort(), ['a', 'new'])
  await node.stop()
})
