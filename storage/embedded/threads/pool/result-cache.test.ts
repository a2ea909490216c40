/** Results are given again only while they hold: compared with the same questions asked in a way that nobody has asked before, over random writes, deletes, drops and declarations. */

import { moduleUrl } from 'svcdb/lib/modules'
import { seeded } from 'svcdb/lib/random'
import { boot } from 'svcdb/testkit'
import t from 'tap'
import { testContext } from '../../../conformance/index.ts'
import { EmbeddedEngine } from '../../engine.ts'
import { closeAndRemove, NOW, NOW_MS, tempDir, writeFloat } from '../../testing/harness.ts'
import type { Counted } from '../testing/counted-job.ts'
import { EVER, ResultCache } from './result-cache.ts'

const JOB = moduleUrl('../testing/counted-job.ts', import.meta.url)
const PLUGINS = ['line_protocol', 'promql', 'sql']
const BASE = 1_700_000_000
/** Seconds of data. */
const SPAN = 4000
const SEED = Number(process.env.SVC_TEST_SEED ?? Math.floor(Math.random() * 2 ** 31))

async function started(database: Record<string, unknown> = {}) {
  const node = await boot({ plugins: PLUGINS, storage: 'embedded', config: { database } })
  const expect = ({ statusCode, body }: { statusCode: number; body: string }): string => {
    if (statusCode >= 300) throw new Error(`${statusCode}: ${body}`)
    return body
  }
  const metric = async (name: string): Promise<number> =>
    Number(new RegExp(`^svc_${name} (\\d+)$`, 'm').exec(expect(await node.inject('/metrics')))?.[1] ?? Number.NaN)
  return {
    node,
    metric,
    hits: () => metric('result_cache_hits_total'),
    write: async (lines: string[]) => void expect(await node.inject({ method: 'POST', url: '/write?precision=s&backfill=true', payload: lines.join('\n') })),
    get: async (url: string) => expect(await node.inject(url)),
    sql: async (query: string) => expect(await node.inject({ method: 'POST', url: '/api/v1/svc/sql', payload: { query } })),
  }
}

type Started = Awaited<ReturnType<typeof started>>
type Question = (server: Started, fresh: string) => Promise<string>

/** A question in a way nobody has asked it: a comment makes a statement one that is not kept, and a query of PromQL another one. */
const promql =
  (query: string, rest: string): Question =>
  ({ get }, fresh) =>
    get(`/api/v1/${rest.includes('step') ? 'query_range' : 'query'}?query=${encodeURIComponent(fresh === '' ? query : `${query} # ${fresh}`)}&${rest}`)
const labels =
  (path: string): Question =>
  ({ get }, fresh) =>
    get(`/api/v1/${path}&limit=${fresh === '' ? 1000 : 1000 + Number(fresh)}`)
const sql =
  (query: string): Question =>
  ({ sql }, fresh) =>
    sql(fresh === '' ? query : `${query} -- ${fresh}`)

const questionsOver = (from: number, to: number): Question[] => {
  const range = `start=${BASE + from}&end=${BASE + to}`
  const timeOf = (table: string): string => `${table}_time >= to_timestamp(${BASE + from}) AND ${table}_time < to_timestamp(${BASE + to})`
  const time = timeOf('')
  return [
    promql('sum by (host) (a_v)', `${range}&step=60`),
    promql('max_over_time(b_v[5m])', `${range}&step=120`),
    promql('a_v offset 10m', `time=${BASE + to}`),
    promql('{__name__=~".+", host="1"}', `time=${BASE + to}`),
    labels(`label/host/values?${range}`),
    labels(`labels?${range}`),
    labels(`series?match[]=a_v&${range}`),
    sql(`SELECT host, sum(v) FROM a WHERE ${time} GROUP BY host ORDER BY host`),
    sql(`SELECT time_bucket(INTERVAL '5 minutes', _time) AS t, max(v) FROM b WHERE ${time} GROUP BY t ORDER BY t`),
    sql(`SELECT * FROM a WHERE ${time} AND host = '2' ORDER BY _time`),
    sql(
      `SELECT x.host, count(*) FROM a x JOIN b y ON x.host = y.host AND x._time = y._time WHERE ${timeOf('x.')} AND ${timeOf('y.')} GROUP BY x.host ORDER BY x.host`,
    ),
    // Few rows, so that single ones begin and end what is answered.
    labels(`series?match[]=c_v&${range}`),
    // Fields that each row has: whether others have a value is looked at by segment or memtable, so that a flush may change that.
    labels(`label/__name__/values?match[]={__name__=~".*_v",host="0"}&${range}`),
    promql('timestamp(c_v)', `time=${BASE + to}`),
    promql(`count_over_time(c_v[10m:1m] @ ${BASE + to} offset 5m)`, `${range}&step=60`),
    sql(`SELECT DISTINCT host FROM c WHERE ${time} ORDER BY host`),
    sql(`SELECT host, arg_max(v, _time) FROM c WHERE ${time} GROUP BY host ORDER BY host`),
    sql(`SELECT * FROM c WHERE ${time} ORDER BY _time DESC, host LIMIT 1`),
    sql(`SELECT DISTINCT ON (host) host, v, _time FROM c WHERE ${time} ORDER BY host, _time DESC`),
    sql(`SELECT host, v FROM a WHERE ${time} LATEST ON _time PARTITION BY host ORDER BY host`),
  ]
}

const QUESTIONS: Question[] = [
  ...questionsOver(0, 1000),
  ...questionsOver(1500, 2500),
  ...questionsOver(0, SPAN),
  sql('SELECT count(*), min(_time), max(_time) FROM a'),
  sql('SELECT host, arg_max(v, _time) FROM a GROUP BY host ORDER BY host'),
  sql('SELECT table_name, column_name FROM information_schema.columns ORDER BY table_name, column_name'),
  labels('label/__name__/values?match[]={__name__=~".*_v"}'),
]

/** Whose settings are the default ones, for all that have measurements of their own. */
let plain: Started
t.before(async () => {
  plain = await started()
})
t.after(() => plain.node.stop())

t.test('an answer is that of the moment, whatever was written, deleted and dropped since it was kept', async (t) => {
  t.comment(`seed ${SEED}`)
  const random = seeded(SEED)
  const upTo = (n: number): number => Math.floor(random() * n)
  const server = await started({ memtable_flush_threshold: 65_536, soft_delete_ttl_secs: 3600 })
  const { node, write, hits } = server
  t.teardown(() => node.stop())
  let now = 500
  const line = (time: number, hosts: number): string =>
    `${random() < 0.5 ? 'a' : 'b'},host=${upTo(hosts)} v=${upTo(1000)}${random() < 0.01 ? `,f${upTo(4)}=1` : ''} ${BASE + time}`
  await write(Array.from({ length: 200 }, () => line(upTo(now), 4)))
  await write([`a,host=0 v=1 ${BASE}`, `b,host=0 v=1 ${BASE}`])
  await write([0, 1, 2].map((host) => `c,host=${host} v=1 ${BASE + SPAN}`))
  const remove = (measurement: string): Promise<unknown> => {
    const start = BASE + upTo(now)
    const matchers = random() < 0.5 ? [] : [{ tag: 'host', op: '=', value: String(upTo(4)) } as const]
    const time = { start: BigInt(start) * 1_000_000_000n, end: BigInt(start + upTo(1500)) * 1_000_000_000n }
    return node.storage.delete({ namespace: '', measurement, ...time, matchers })
  }
  const changes: (() => Promise<unknown>)[] = [
    // Live rows.
    () => {
      now = Math.min(SPAN, now + upTo(300))
      return write(Array.from({ length: 1 + upTo(5) }, () => line(now, 4)))
    },
    // Late ones, of a new series, with a new field.
    () => write([line(upTo(now), 4)]),
    () => write([`a,host=${4 + upTo(100)} v=1 ${BASE + upTo(now)}`]),
    () => write([`a,host=2 v=1,f${upTo(30)}=1 ${BASE + upTo(now)}`]),
    () => remove('a'),
    () => write([`c,host=${upTo(3)} v=${upTo(10)} ${BASE + upTo(SPAN)}`]),
    () => remove('c'),
    // In the place of an older one.
    () => write([`a,host=1 v=${upTo(1000)} ${BASE + 300}`]),
    () => node.storage.declareField('', 'a', { name: `d${upTo(30)}`, type: 'int64' }),
    () => node.storage.flush(),
    () => node.storage.drop('', 'b'),
    // As it was, unless somebody has written to another of its name.
    () => node.storage.restore('', 'b').catch(() => write([`b,host=1 v=7 ${BASE + upTo(now)}`])),
  ]
  let fresh = 0
  const wrong: string[] = []
  for (let round = 0; round < 6; round++) {
    const asked = Array.from({ length: 5 }, () => upTo(QUESTIONS.length))
    for (const which of [...asked, ...asked]) await QUESTIONS[which](server, '').catch(() => '') // kept from now on
    for (let i = 0; i < 5; i++) {
      const change = upTo(changes.length)
      await changes[change]().catch(() => {}) // there is nothing to drop
      for (const which of asked) {
        const given = await QUESTIONS[which](server, '').catch(told)
        const wanted = await QUESTIONS[which](server, String(++fresh)).catch(told)
        if (given !== wanted) wrong.push(`round ${round}, question ${which} after change ${change}: ${given.slice(0, 300)} instead of ${wanted.slice(0, 300)}`)
      }
    }
  }
  t.same(wrong, [])
  t.ok((await hits()) > 20, `${await hits()} of 210 were kept`)
})

t.test('whoever has written finds it in an answer', async (t) => {
  const { write, sql: ask, hits } = plain
  const before = await hits()
  let acknowledged = 0
  const behind: string[] = []
  const count = async (): Promise<void> => {
    const least = acknowledged
    const { rows } = JSON.parse(await ask('SELECT count(*) FROM counted')) as { rows: [[number]] }
    if (rows[0][0] < least) behind.push(`${rows[0][0]} of ${least}`)
  }
  await write([`counted v=0 ${BASE}`])
  acknowledged++
  const asked: Promise<void>[] = []
  for (let i = 1; i < 100; i++) {
    asked.push(count(), count())
    const written = write([`counted v=1 ${BASE + i}`])
    asked.push(count())
    await written
    acknowledged++
    await count()
    if (i % 10 === 0) await Promise.all(asked.splice(0))
  }
  t.same(behind, [])
  await count()
  await count()
  await count()
  t.ok((await hits()) > before)
})

t.test('a time that is past is answered without being read again while others are written', async (t) => {
  const { write, hits } = plain
  await write(Array.from({ length: 1000 }, (_, i) => `a,host=${i % 4} v=${i} ${BASE + i}`))
  const live = (time: number): string[] => ['a', 'b', 'c'].map((name) => `${name},host=1 v=1 ${BASE + time}`)
  await write(live(0))
  const past = questionsOver(300, 900)
  for (const question of [...past, ...past]) await question(plain, '')
  const before = await hits()
  for (let i = 0; i < 100; i++) await write(live(1000 + i))
  for (const question of past) await question(plain, '')
  t.equal((await hits()) - before, past.length)
  await write([`a,host=1 v=5 ${BASE + 600}`])
  for (const question of past) await question(plain, '')
  t.ok((await hits()) - before < past.length * 2, 'those over it are read again')
})

t.test('what retention takes is in no result', async (t) => {
  let now = NOW_MS
  const dir = tempDir()
  const engine = new EmbeddedEngine(testContext({ data_dir: dir, retention_secs: 4 * 3600, maintenance_interval_secs: 3600, warm_up_ms: 0 }, () => now))
  await engine.open()
  t.teardown(() => closeAndRemove(engine, dir))
  const ask = async (cacheable: boolean): Promise<Counted> => {
    const job = engine.run<Counted>(JOB, { namespace: '', measurement: 'cpu' }, { namespace: '', shared: cacheable, cacheable })
    for await (const _ of job.output);
    return job.result
  }
  for (const hours of [3n, 2n, 1n]) await writeFloat(engine, 'cpu', 'a', NOW - hours * 3_600_000_000_000n, { v: 1 }, { backfill: true })
  for (let i = 0; i < 3; i++) t.equal((await ask(true)).rows, 3)
  t.equal((await ask(false)).before, 2, 'of three equal ones two have run')
  now += 2.5 * 3_600_000
  await writeFloat(engine, 'newer', 'a', BigInt(now) * 1_000_000n, { v: 1 })
  for (let i = 0; i < 3; i++) t.equal((await ask(true)).rows, 3)
  await engine.tidy()
  const { rows } = await ask(false)
  t.ok(rows < 3)
  for (let i = 0; i < 3; i++) t.equal((await ask(true)).rows, rows)
})

t.test('what a namespace declares and gives back ends its own results, and no others', async (t) => {
  const dir = tempDir()
  const engine = new EmbeddedEngine(testContext({ data_dir: dir, warm_up_ms: 0 }, () => NOW_MS))
  await engine.open()
  t.teardown(() => closeAndRemove(engine, dir))
  const ask = async (namespace: string): Promise<number> => {
    const job = engine.run<Counted>(JOB, { namespace, measurement: 'cpu' }, { namespace, shared: true, cacheable: true })
    for await (const _ of job.output);
    return (await job.result).before
  }
  const write = async (namespace: string, host: string): Promise<void> => {
    const batch = engine.batch(namespace)
    const measurement = engine.resolver.measurement(namespace, 'cpu')
    const table = batch.table(measurement)
    const row = table.addRow(engine.resolver.series(measurement, ['host', host]), Number(BigInt.asIntN(32, NOW)), Number(NOW >> 32n), 0)
    table.column('v', 'float64').setF64(row, 1)
    await engine.write(batch)
  }
  for (const namespace of ['a', 'b']) for (const host of ['x', 'y']) await write(namespace, host)
  for (const namespace of ['a', 'b', 'a', 'b']) await ask(namespace)
  const runs = { a: await ask('a'), b: await ask('b') }
  await engine.declareField('a', 'cpu', { name: 'w', type: 'int64' })
  t.equal(await ask('b'), runs.b)
  t.not(await ask('a'), runs.a)
  runs.a = await ask('a')
  const live = async (): Promise<number> => (await engine.usage('a')).series
  const decoding = engine.batch('a')
  await engine.delete({ namespace: 'a', measurement: 'cpu', matchers: [{ tag: 'host', op: '=', value: 'x' }] })
  t.equal(await live(), 2, 'a series that a decoder may hold is not given back')
  await ask('a')
  runs.a = await ask('a')
  t.equal(await ask('a'), runs.a)
  engine.recycle(decoding)
  await engine.tidy()
  await write('c', 'behind it in the log')
  t.equal(await live(), 1, 'its series is given back')
  t.equal(await ask('b'), runs.b)
  t.not(await ask('a'), runs.a)
})

t.test('an answer of any length is given again as it was', async (t) => {
  const { write, sql: ask, get, hits } = plain
  const before = await hits()
  const texts = Array.from({ length: 6000 }, (_, i) => `${i}`.padStart(20, 'x'))
  await write(texts.map((text, i) => `long,host=${text} v=${i} ${BASE + i}`))
  for (const rows of [0, 1, 10, 100, 1000, 2000, 4000, 6000]) {
    const query = `SELECT * FROM long WHERE v < ${rows} ORDER BY v`
    const wanted = await ask(`${query} -- as it is`)
    const range = `query=${encodeURIComponent(`sort(long_v < ${rows})`)}&start=${BASE}&end=${BASE + rows}&step=60`
    const matrix = await get(`/api/v1/query_range?${range}&limit=100000`)
    for (let i = 0; i < 5; i++) {
      t.ok((await ask(query)) === wanted, `${wanted.length} characters of rows`)
      t.ok((await get(`/api/v1/query_range?${range}`)) === matrix, `${matrix.length} characters of a matrix`)
    }
  }
  t.ok((await hits()) - before > 40)
})

t.test('what depends on the moment is not kept, nor anything where no room is given', async (t) => {
  const roomless = await started({ result_cache_size: 0 })
  t.teardown(() => roomless.node.stop())
  for (const { write, sql: ask, get, hits, metric } of [plain, roomless]) {
    const before = await hits()
    await write([`m v=0 ${BASE}`])
    const kept = ['SELECT count(*) FROM m']
    const not = ['SELECT now()', 'SELECT current_timestamp', 'SELECT count(*) FROM m WHERE _time < now()', 'EXPLAIN SELECT count(*) FROM m', 'SELECT random()']
    for (const query of [...kept, ...kept, ...kept, ...not, ...not, ...not]) await ask(query)
    for (let i = 0; i < 3; i++) await get(`/api/v1/query?query=m_v&time=${BASE}&stats=all`)
    t.equal((await hits()) - before, write === plain.write ? 1 : 0)
    t.equal((await metric('result_cache_bytes')) > 0, write === plain.write)
  }
})

/** Where a measurement is gone. */
const told = (error: Error): string => error.message.replace(/ -- \d+/, '')

/** A cache with room for some results of a kilobyte each. */
function filled(room: number) {
  const cache = new ResultCache(room)
  const bytes = Buffer.alloc(1000, 1)
  const keep = (namespace: string, key: string): void => {
    cache.draft(namespace, key)
    const draft = cache.draft(namespace, key)
    draft?.push(bytes)
    draft?.done(undefined, undefined, [0n, 10n])
  }
  return { cache, keep }
}

t.test('nobody joins a job that goes on from what was kept once changes of its namespace are no longer noted', async (t) => {
  const { cache, keep } = filled(100_000)
  const going = () => cache.partial('quiet', 'panel')
  going()
  going()?.keep(Buffer.alloc(10), [0n, 10n])
  const draft = going()
  t.equal(draft?.bytes?.length, 10)
  t.equal(draft?.overtaken, false)
  for (let i = 0; i < 200; i++) keep(`other${i % 20}`, `o${i}`)
  cache.changed('quiet', [5n, 5n])
  t.equal(draft?.overtaken, true)
  draft?.keep(Buffer.alloc(20), [0n, 10n])
  t.equal(going(), undefined, 'nor is anything kept of it')
})

t.test('it never takes more than its room, and a namespace that has a quarter makes way for others', async (t) => {
  const { cache, keep } = filled(100_000)
  for (let i = 0; i < 10; i++) keep('quiet', `q${i}`)
  for (let i = 0; i < 1000; i++) {
    keep('loud', `l${i}`)
    if (cache.bytes > 100_000) t.fail(`${cache.bytes} bytes`)
  }
  t.ok(Array.from({ length: 10 }, (_, i) => cache.find('quiet', `q${i}`)).every((kept) => kept !== undefined))
  t.ok(cache.find('loud', 'l999') !== undefined)
  t.equal(cache.find('quiet', 'l999'), undefined)
  for (let i = 0; i < 100_000; i++) cache.draft(`n${i % 1000}`, `once${i}`)
  t.ok(cache.bytes <= 100_000)
  t.equal(cache.draft('loud', 'k'.repeat(1000)), undefined, 'a long key')
  t.equal(cache.draft('loud', 'k'.repeat(1000)), undefined)
  cache.draft('loud', 'large')
  const draft = cache.draft('loud', 'large')
  for (let i = 0; i < 10; i++) draft?.push(Buffer.alloc(1000))
  draft?.done(undefined, undefined, [0n, 10n])
  t.equal(cache.find('loud', 'large'), undefined)
})

t.test('two thousand panels that are asked for in turn are all known when they are asked for again', async (t) => {
  const { cache } = filled(10_000_000)
  const panels = Array.from({ length: 2000 }, (_, i) => `panel ${i}`)
  t.ok(panels.every((panel) => cache.draft('n', panel) === undefined && cache.partial('n', `${panel}, its steps`) === undefined))
  t.ok(panels.every((panel) => cache.draft('n', panel) !== undefined && cache.partial('n', `${panel}, its steps`) !== undefined))
})

t.test('what is known of keys by their hashes is never taken for a result', async (t) => {
  const { cache, keep } = filled(100_000)
  // FNV-1a of both is the same.
  const [one, other] = ['costarring', 'liquid']
  t.equal(cache.draft('n', one), undefined)
  cache.draft('n', other)?.done('of the other', undefined, [0n, 10n])
  t.equal(cache.find('n', one), undefined)
  t.equal(cache.find('n', other)?.result, 'of the other')
  keep('n', one)
  t.equal(cache.find('n', one)?.result, undefined)
  t.equal(cache.find('n', other)?.result, 'of the other')
  const { bytes } = cache
  for (let i = 0; i < 10; i++) for (const key of [one, other]) cache.draft('n', key)?.done(undefined, undefined, [0n, 10n])
  t.ok(cache.bytes <= bytes + 200, 'each is counted once')
})

t.test('what jobs go on from counts as well, once however often it is replaced', async (t) => {
  const { cache, keep } = filled(100_000)
  keep('quiet', 'q')
  const goOn = (key: string): void => cache.partial('loud', key)?.keep(Buffer.alloc(1000), [0n, 10n])
  for (let i = 0; i < 2; i++) goOn('panel')
  const { bytes } = cache
  for (let i = 0; i < 200; i++) goOn('panel')
  t.equal(cache.bytes, bytes)
  for (let i = 0; i < 400; i++) goOn(`k${i % 200}`)
  for (let i = 0; i < 200; i++) for (let again = 0; again < 2; again++) goOn(`k${i}`)
  t.ok(cache.bytes <= 100_000)
  let kept = 0
  // The newest first: who asks for one that has gone takes another's room.
  while (cache.partial('loud', `k${199 - kept}`)?.bytes !== undefined) kept++
  t.ok(kept > 10 && kept * 1000 < 100_000, `${kept} of 200`)
  t.ok(cache.find('quiet', 'q') !== undefined)
})

t.test('a namespace that has more than a quarter makes way, whoever came first, and however busy it is', async (t) => {
  const { cache, keep } = filled(100_000)
  for (let i = 0; i < 1000; i++) keep('loud', `l${i}`)
  for (let i = 0; i < 10; i++) {
    for (const quiet of ['q0', 'q1', 'q2']) {
      keep(quiet, `k${i}`)
      for (let again = 0; again < 5; again++) keep('loud', `l${i} ${again}`)
    }
  }
  for (const quiet of ['q0', 'q1', 'q2'])
    t.ok(
      Array.from({ length: 10 }, (_, i) => cache.find(quiet, `k${i}`)).every((kept) => kept !== undefined),
      quiet,
    )
  t.ok(cache.find('loud', 'l9 4') !== undefined)
})

t.test('what namespaces take beside their results counts', async (t) => {
  const { cache } = filled(1_000_000)
  for (let i = 0; i < 10_000; i++) {
    const namespace = `n${i}`
    cache.draft(namespace, 'k')
    for (let change = 0n; change < 40n; change++) {
      cache.draft(namespace, 'k')
      cache.changed(namespace, [change, change])
    }
  }
  t.ok(cache.bytes <= 1_000_000)
  // One that is not known takes another's room: the newest first, until one is met.
  let known = 0
  while (cache.draft(`n${9999 - known}`, 'k') !== undefined) known++
  t.ok(known > 0 && known * 4000 < 1_000_000, `${known} namespaces with 32 changes each`)
})

t.test('a result is not kept whose namespace, and what was known of its changes, went meanwhile', async (t) => {
  const { cache, keep } = filled(100_000)
  for (let change = 0n; change < 5n; change++) {
    keep('n', `k${change}`)
    cache.changed('n', [change * 100n, change * 100n])
  }
  cache.draft('n', 'late')
  const late = cache.draft('n', 'late')
  cache.partial('n', 'panel')
  const going = cache.partial('n', 'panel')
  for (let i = 0; i < 200; i++) keep(`other${i}`, 'k')
  cache.draft('n', 'late')
  cache.draft('n', 'late')
  cache.partial('n', 'panel')
  cache.changed('n', [5n, 5n])
  late?.done(undefined, undefined, [0n, 10n])
  t.equal(cache.find('n', 'late'), undefined)
  going?.keep(Buffer.alloc(10), [0n, 10n])
  t.equal(cache.partial('n', 'panel')?.bytes, undefined, 'nor what jobs go on from')
})

t.test('changes are told apart as far as they go, and never forgotten', async (t) => {
  t.comment(`seed ${SEED}`)
  const random = seeded(SEED)
  const { cache } = filled(10_000_000)
  const time = (): bigint => BigInt(Math.floor(random() * 200))
  /** Changes since each key was asked for, and what it has read. */
  const kept = new Map<string, { read: [bigint, bigint]; changes: [bigint, bigint][] }>()
  let held = 0
  for (let i = 0; i < 20_000; i++) {
    const key = `k${Math.floor(random() * 100)}`
    const from = time()
    if (random() < 0.1) {
      const change: [bigint, bigint] = random() < 0.01 ? EVER : [from, from + time() / 20n]
      cache.changed('n', change)
      for (const { changes } of kept.values()) changes.push(change)
    } else if (random() < 0.5) {
      cache.draft('n', key)
      const draft = cache.draft('n', key)
      const mine: [bigint, bigint] = [from, from + time() / 10n]
      const entry = { read: mine, changes: [] as [bigint, bigint][] }
      if (random() < 0.3) {
        const change: [bigint, bigint] = [time(), 200n]
        cache.changed('n', change)
        for (const { changes } of kept.values()) changes.push(change)
        entry.changes.push(change)
      }
      draft?.done(undefined, undefined, mine)
      // Else what was kept before stays.
      if (!entry.changes.some(([a, b]) => a <= mine[1] && b >= mine[0])) kept.set(key, entry)
    } else if (cache.find('n', key) !== undefined) {
      const { read, changes } = kept.get(key)!
      if (changes.some(([a, b]) => a <= read[1] && b >= read[0])) t.fail(`step ${i}: ${key} does not hold`)
      held++
    }
  }
  t.ok(held > 100, `${held}`)
})

t.end()
