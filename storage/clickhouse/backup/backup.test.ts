/** Backups on ClickHouse's disk: what is in them, what restores and verifications leave behind, and what is refused. */
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { NO_CHDB, startChdb } from '../../../test/support/clickhouse/clickhouse.ts'
import { testContext } from '../../conformance/index.ts'
import { bool, dec, f64, hist, i64, lines, NOW, NOW_MS, str, type TestPoint, u64, write } from '../../conformance/points.ts'
import { Client } from '../client.ts'
import { sectionOf } from '../config.ts'
import { ClickHouseEngine, capabilities } from '../engine.ts'
import { Held, proxyTo } from '../testing/proxy.ts'
import { texts } from '../topology.ts'

const at = (n: number): bigint => NOW + BigInt(n)
const NAMESPACES = ['default', 'Of another: name']

/** Points of all types, in tables of their own and in the one that metrics share; the last of them begins there and leaves it. */
function pointsAt(n: number): TestPoint[] {
  const tags = { host: `h${n % 3}` }
  const fields = {
    f: f64(n / 4),
    i: i64(BigInt(-n)),
    u: u64(BigInt(n)),
    b: bool(n % 2 === 0),
    s: str(`it's "${n}"\\`),
    d: dec(`${n}.250`),
    h: hist(Uint8Array.of(n & 255, 1)),
  }
  return [
    { measurement: 'all', tags, time: at(n), fields },
    { measurement: 'metric', tags, time: at(n), fields: { value: f64(n) } },
    { measurement: 'grown', tags, time: at(n), fields: n < 5 ? { value: f64(n) } : { value: f64(n), more: str('x') } },
  ]
}

t.test('without a disk there are no backups', async (t) => {
  const engine = new ClickHouseEngine(testContext({}, Date.now))
  t.notOk(engine.capabilities.has('backup'))
  t.ok(capabilities.has('backup'))
  t.equal(engine.backup, undefined)
  await engine.close()
})

for (const cluster of NO_CHDB === undefined ? ['', 'main'] : [])
  t.test(cluster === '' ? 'one server' : "a cluster's form", async (t) => {
    const server = await startChdb(cluster)
    t.teardown(() => server.stop())
    let made = 0
    const unique = (): string => `b${process.pid}_${made++}`
    const client = new Client(sectionOf({ clickhouse: server.section }))
    t.teardown(() => client.close())
    const open = async (t: Test, prefix: string, url = server.url, now = () => NOW_MS): Promise<ClickHouseEngine> => {
      const section = { ...server.section, url, prefix, backup_disk: 'backups' }
      const engine = new ClickHouseEngine(testContext({ soft_delete_ttl_secs: 3600, clickhouse: section }, now))
      await engine.open()
      t.teardown(() => engine.close())
      return engine
    }
    const backupOf = ({ backup }: ClickHouseEngine) => backup as NonNullable<typeof backup>
    const databases = async (prefix: string): Promise<string[]> =>
      (await texts(client, `SELECT name FROM system.databases WHERE startsWith(name, '${prefix}')`)).flat()
    const folder = (name: string): string => join(server.backups as string, name)

    t.test('all that was acknowledged is in a backup made while writes go on, and answers the same under another prefix', async (t) => {
      const held = new Held()
      const proxy = await proxyTo(server.url, (statement, forward) => held.pass(statement, forward))
      t.teardown(() => proxy.close())
      const [from, to] = [unique(), unique()]
      const one = await open(t, from, proxy.url)
      let n = 0
      const add = async (): Promise<void> => {
        for (const namespace of NAMESPACES) t.equal((await write(one, pointsAt(n), { namespace })).rejected, 0)
        n++
      }
      while (n < 8) await add()
      const side = (measurement: string): TestPoint => ({ measurement, tags: { k: 'v' }, time: NOW, fields: { x: f64(1) } })
      await write(one, ['dropped', 'ended', 'back'].map(side))
      await one.drop('default', 'dropped')
      await one.drop('default', 'back')
      await one.drop('default', 'ended', { final: true })
      await one.restore('default', 'back')
      await one.delete({ namespace: 'default', measurement: 'metric', matchers: [{ tag: 'host', op: '=', value: 'h1' }] })

      const acknowledged = n
      held.next(/^BACKUP TABLE/)
      const making = backupOf(one).create('/safe/monday')
      await held.reached
      // The points are in it, its catalog is not: what comes now is in the catalog alone, or in neither.
      while (n < 12) await add()
      await one.declareField('default', 'all', { name: 'late', type: 'int64' })
      await write(one, [{ measurement: 'all', tags: { host: 'h0' }, time: at(0), fields: { late: i64(7n) } }, side('young')])
      await one.drop('default', 'grown', { final: true })
      await t.rejects(backupOf(one).create('/safe/tuesday'), { code: 'CONFLICT', message: /another backup is being made/ })
      held.release()
      const manifest = await making
      t.match(manifest, { version: 1, createdAt: NOW_MS, statistics: {} })
      t.ok(manifest.files > 10 && manifest.bytes > 1000, JSON.stringify(manifest))
      t.same(await texts(client, `SELECT backup FROM ${from}.backups`), [], 'what it notes for a backup it removes')

      t.same(await backupOf(one).verify('/safe/monday'), manifest)
      t.same(await databases(`${from}_Verify`), [])
      t.same(await backupOf(one).restore('/safe/monday', `/safe/${to}`), manifest)
      const two = await open(t, to)
      t.same(await two.namespaces(), [...NAMESPACES].sort())
      for (const namespace of NAMESPACES)
        for (const measurement of namespace === 'default' ? ['all', 'metric', 'back'] : ['all', 'metric', 'grown']) {
          const until = { namespace, measurement, end: at(acknowledged) }
          const expected = await lines(one, until)
          // The field came after the points were copied.
          const early = expected.map((line) => line.replace(' late=int64:7', ''))
          t.same(await lines(two, until), early, `${namespace} ${measurement}`)
          t.ok(early.length > 0)
        }
      t.same(
        (await two.measurements('default')).map(({ name }) => name),
        ['all', 'back', 'metric', 'young'],
        'what was dropped by then is dropped',
      )
      t.same(await lines(two, { measurement: 'young' }), [])
      await two.restore('default', 'dropped')
      t.same(await lines(two, { measurement: 'dropped' }), [`{"k":"v"} ${NOW} x=float64:1`])

      // A column is one field's, there as here.
      const first = (await two.measurements('default')).find(({ name }) => name === 'all')?.fields.map(({ name }) => name)
      t.equal(first?.at(-1), 'late')
      await write(two, [{ measurement: 'all', tags: { host: 'new' }, time: at(0), fields: { late: i64(8n), later: str('y') } }])
      t.same(await lines(two, { measurement: 'all', matchers: [{ tag: 'host', op: '=', value: 'new' }] }), [
        `{"host":"new"} ${NOW} late=int64:8 later=string:"y"`,
      ])
      await write(two, [{ measurement: 'metric', tags: { host: 'h1' }, time: at(1000), fields: { value: f64(1) } }])
      const h1 = { measurement: 'metric', matchers: [{ tag: 'host', op: '=' as const, value: 'h1' }] }
      t.same(await lines(two, h1), [`{"host":"h1"} ${at(1000)} value=float64:1`], 'what was deleted does not come back')
    })

    t.test('a row whose series is not in the backup does not come back with the series', async (t) => {
      const [from, to] = [unique(), unique()]
      const one = await open(t, from)
      const all = ['a', 'b'].flatMap((host): TestPoint[] => [
        { measurement: 'metric', tags: { host }, time: NOW, fields: { value: f64(1) } },
        { measurement: 'own', tags: { host }, time: NOW, fields: { v: f64(1) } },
      ])
      await write(one, all)
      const series = `${from}_n_default.series${cluster === '' ? '' : '_local'}`
      await client.command(`DELETE FROM ${series} WHERE tags['host'] = 'a'`)
      await backupOf(one).create('/half')
      await backupOf(one).restore('/half', `/${to}`)
      const two = await open(t, to)
      const late = all.map((point) => ({ ...point, time: at(1) }))
      await write(two, late)
      t.same(await lines(two, { measurement: 'metric' }), [
        `{"host":"a"} ${at(1)} value=float64:1`,
        `{"host":"b"} ${NOW} value=float64:1`,
        `{"host":"b"} ${at(1)} value=float64:1`,
      ])
      t.equal((await lines(two, { measurement: 'own' })).length, 3)
    })

    if (cluster !== '') return

    t.test('an empty database', async (t) => {
      const [from, to] = [unique(), unique()]
      const one = await open(t, from)
      const manifest = await backupOf(one).create('/empty')
      t.same(await backupOf(one).restore('/empty', `/${to}`), manifest)
      const two = await open(t, to)
      t.same(await two.namespaces(), [])
      t.match(await write(two, pointsAt(0)), { written: 3 })
    })

    t.test('what is refused leaves nothing', async (t) => {
      const prefix = unique()
      const one = await open(t, prefix)
      await write(one, pointsAt(0))
      const backup = backupOf(one)
      await backup.create("/odd name's/a\\b")
      await t.rejects(backup.create("/odd name's/a\\b"), { code: 'CONFLICT', message: /has something of that name/ })
      t.match(await backup.verify("/odd name's/a\\b"), { version: 1 })
      for (const target of [prefix, 'r/Upper', '1st', 'a-b', 'x'.repeat(33), `${prefix}_n_new`, ''])
        await t.rejects(backup.restore("/odd name's/a\\b", `/${target}`), { code: 'INVALID_REQUEST' }, target)
      const other = unique()
      for (const database of [other, `${other}_n_a`]) {
        await client.command(`CREATE DATABASE ${database}`)
        await t.rejects(backup.restore("/odd name's/a\\b", `/${other}`), { code: 'INVALID_REQUEST', message: /it exists/ })
        t.same(await databases(other), [database], 'what is there stays')
        await client.command(`DROP DATABASE ${database}`)
      }
      const both = await Promise.allSettled([1, 2].map(() => backup.restore("/odd name's/a\\b", `/${other}`)))
      t.same(both.map(({ status }) => status).sort(), ['fulfilled', 'rejected'], 'of two at once one has the prefix')
      t.match(
        both.find(({ status }) => status === 'rejected'),
        { reason: { code: 'CONFLICT' } },
      )
      t.same(await lines(await open(t, other), { measurement: 'metric' }), [`{"host":"h0"} ${NOW} value=float64:0`])
      const free = unique()
      for (const work of [() => backup.verify('/none'), () => backup.restore('/none', `/${free}`)])
        await t.rejects(work(), { code: 'INVALID_REQUEST', message: /has no backup of that name/ })
      await t.rejects(backup.create('/'), { code: 'INVALID_REQUEST', message: /names no place/ })
      t.same(await databases(free), [])
      t.same(await databases(`${prefix}_V`), [])
      const wrong = new ClickHouseEngine(testContext({ clickhouse: { ...server.section, prefix, backup_disk: 'no_such' } }, () => NOW_MS))
      await wrong.open()
      await t.rejects(backupOf(wrong).create('/x'), { code: 'INVALID_REQUEST', message: /no_such.* is not allowed.*see database\.clickhouse\.backup_disk/ })
      await wrong.close()
      await t.rejects(backupOf(wrong).create('/x'), { code: 'DATABASE_CLOSED' })
    })

    t.test('a damaged backup is found out, by verification and by restore, and nothing is left', async (t) => {
      const [prefix, to] = [unique(), unique()]
      const one = await open(t, prefix)
      await write(one, [0, 1, 2].flatMap(pointsAt))
      const backup = backupOf(one)
      const manifest = await backup.create('/damaged')
      const files = (readdirSync(folder('damaged'), { recursive: true }) as string[]).sort()
      const found = (pattern: RegExp): string => folder(join('damaged', files.find((file) => pattern.test(file)) as string))
      let tried = 0
      for (const pattern of [
        /points\/data\/.*m_\d.*data\.bin$/,
        /points\/data\/.*series.*data\.bin$/,
        /catalog\/data\/.*catalog.*data\.bin$/,
        /points\/\.backup$/,
      ]) {
        const path = found(pattern)
        const whole = readFileSync(path)
        const flipped = Buffer.from(whole)
        flipped[flipped.length >> 1] ^= 4
        const harms: (() => void)[] = [() => writeFileSync(path, whole.subarray(0, -1)), () => rmSync(path)]
        // Of the list of files a changed letter may be of no weight.
        if (!path.endsWith('.backup')) harms.push(() => writeFileSync(path, flipped))
        for (const harm of harms) {
          harm()
          const [verb, work] = tried++ % 2 === 0 ? ['verify', backup.verify('/damaged')] : ['restore', backup.restore('/damaged', `/${to}`)]
          await t.rejects(work, { code: 'INVALID_REQUEST', message: new RegExp(`^cannot ${verb} backup "/damaged"`) }, `${verb} ${path}`)
          t.same([...(await databases(`${prefix}_V`)), ...(await databases(to))], [])
          writeFileSync(path, whole)
        }
      }
      t.same(await backup.verify('/damaged'), manifest)
    })

    t.test('what a verification has left whose node died goes with one of a day later', async (t) => {
      const prefix = unique()
      const clock = { ms: NOW_MS }
      const one = await open(t, prefix, server.url, () => clock.ms)
      await backupOf(one).create('/left')
      const left = [`${prefix}_Verify_${NOW_MS}_0a1b2c3d`, `${prefix}_Verify_${NOW_MS}_0a1b2c3d_n_default`, `${prefix}_Verify_of_somebody`]
      for (const database of left) await client.command(`CREATE DATABASE ${database}`)
      await backupOf(one).verify('/left')
      t.same(await databases(`${prefix}_Verify`), left, 'it may be under way elsewhere')
      clock.ms += 86_400_001
      await backupOf(one).verify('/left')
      t.same(await databases(`${prefix}_Verify`), left.slice(2))
    })

    t.test('a close ends the waiting', async (t) => {
      const held = new Held()
      const proxy = await proxyTo(server.url, (statement, forward) => held.pass(statement, forward))
      t.teardown(() => proxy.close())
      const one = await open(t, unique(), proxy.url)
      await write(one, pointsAt(0))
      held.next(/system\.backups/)
      const making = backupOf(one).create('/closed')
      await held.reached
      const begun = performance.now()
      await Promise.all([t.rejects(making, { code: 'DATABASE_CLOSED' }), one.close()])
      t.ok(performance.now() - begun < 20_000, 'though no answer comes')
      held.release()
    })
  })

if (NO_CHDB !== undefined) t.test('backups', { skip: NO_CHDB }, async () => {})
