import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, truncateSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Clock, definePlugin } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { type BootOptions, boot, loadEngine, MetricsRegistry, systemClock, type TestNode, temporaryFolder } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { until } from '../../test/support/until.ts'
import { checkpointName, checkpointTime, surplus, waitFor } from './checkpoint-names.ts'
import plugin from './index.ts'

t.setTimeout(120_000)
const QUIET = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
const START = BigInt(Date.now()) * 1_000_000n

type Answer = { statusCode: number; body: Record<string, unknown> & { error?: string; code?: string } }

async function node(t: Test, options: BootOptions = {}): Promise<TestNode> {
  const running = await boot({ plugins: [plugin, 'native'], storage: 'embedded', ...options })
  t.teardown(() => running.stop())
  return running
}

async function post(on: TestNode, path: string, body: unknown): Promise<Answer> {
  const answer = await on.inject({ method: 'POST', url: `/api/v1/admin/${path}`, payload: body as object })
  return { statusCode: answer.statusCode, body: answer.json() }
}

async function write(on: TestNode, from: number, to: number): Promise<void> {
  const points = Array.from({ length: to - from }, (_, i) => {
    const n = from + i
    return `{"measurement":"m","tags":{"host":"h${n % 5}"},"timestamp":${START + BigInt(n)},"fields":{"n":${n},"text":"t${n}"}}`
  })
  const answer = await on.inject({ method: 'POST', url: '/api/v1/write', payload: `[${points.join(',')}]`, headers: { 'content-type': 'application/json' } })
  if (answer.statusCode !== 204) throw new Error(answer.body)
}

async function rows(on: TestNode, before: number): Promise<string> {
  const plan = `{"measurement":"m","range":{"end":${START + BigInt(before)}}}`
  const answer = await on.inject({ method: 'POST', url: '/api/v1/svc/query', payload: plan, headers: { 'content-type': 'application/json' } })
  return answer.body
}

const metric = async (on: TestNode, name: string) => Number(new RegExp(`^${name} (\\S+)`, 'm').exec((await on.inject('/metrics')).body)?.[1])

t.test('a backup made during load, restored elsewhere, answers the same at its point', async (t) => {
  const one = await node(t)
  let sent = 0
  let stop = false
  const load = (async () => {
    for (; !stop; sent += 50) await write(one, sent, sent + 50)
  })()
  while (sent < 200) await new Promise((resolve) => setTimeout(resolve, 5))
  const acknowledged = sent
  const made = await post(one, 'backup', { target_dir: 'monday' })
  stop = true
  await load
  t.equal(made.statusCode, 200, JSON.stringify(made.body))
  t.same(Object.keys(made.body).sort(), ['created_at', 'file_count', 'segments', 'total_bytes', 'version', 'wal_sequence'])
  t.ok(acknowledged > 0 && sent > acknowledged, `${acknowledged} of ${sent} points before the backup`)
  t.same(await post(one, 'backup/verify', { backup_dir: 'monday' }), made)
  t.same(await post(one, 'restore', { backup_dir: 'monday', target_dir: 'restored' }), made)
  const two = await bootOn(t, join(one.dataDir, 'backups', 'restored'))
  t.equal(await rows(two, acknowledged), await rows(one, acknowledged), 'byte for byte')
  t.equal(await metric(one, 'svc_backups_total'), 1)
  t.equal(await metric(one, 'svc_backup_bytes_total'), made.body.total_bytes)
  t.equal(await metric(one, 'svc_backup_duration_seconds_count'), 1)
  t.equal(await metric(one, 'svc_backup_failures_total'), 0)
})

/** A node on this data directory instead of the test kit's own. */
async function bootOn(t: Test, dataDir: string): Promise<TestNode> {
  const { createEngine } = await loadEngine('embedded', process.cwd())
  const metrics = new MetricsRegistry()
  t.teardown(() => metrics.close())
  return node(t, { storage: createEngine({ config: { data_dir: dataDir }, log: QUIET, metrics: metrics.child('storage'), now: Date.now }) })
}

t.test('what a killed restore has left is told when its target is restored again, and nothing else', async (t) => {
  const lines: string[] = []
  const one = await node(t, { log: (line) => lines.push(line) })
  await write(one, 0, 10)
  await post(one, 'backup', { target_dir: 'monday' })
  const root = join(one.dataDir, 'backups')
  for (const name of ['again.restoring-0a1b2c3d', 'again.restoring-notes', 'other.restoring-0a1b2c3d']) mkdirSync(join(root, name))
  const told = () => lines.map((line) => JSON.parse(line)).filter(({ directories }) => directories !== undefined)
  t.equal((await post(one, 'restore', { backup_dir: 'monday', target_dir: 'again' })).statusCode, 200)
  t.match(told(), [{ level: 'warn', directories: [join(root, 'again.restoring-0a1b2c3d')], msg: /a restore that was cut short has left these; remove them/ }])
  t.equal((await post(one, 'restore', { backup_dir: 'monday', target_dir: 'third' })).statusCode, 200)
  t.equal(told().length, 1)
})

t.test('a backup that takes the place of another is told as such', async (t) => {
  const lines: string[] = []
  const one = await node(t, { log: (line) => lines.push(line) })
  await write(one, 0, 10)
  // What was cut short is none.
  mkdirSync(join(one.dataDir, 'backups', 'monday', 'unfinished'), { recursive: true })
  for (const target of ['monday', 'monday', 'tuesday']) t.equal((await post(one, 'backup', { target_dir: target })).statusCode, 200)
  t.match(
    lines.map((line) => JSON.parse(line)).filter(({ name }) => name === 'backup'),
    [{ msg: /^made a backup$/ }, { msg: /^made a backup in the place of an older one/, directory: /monday$/ }, { msg: /^made a backup$/ }],
  )
})

t.test('verify names the bad file; restore refuses it and leaves nothing', async (t) => {
  const root = temporaryFolder(t)
  const one = await node(t, { config: { server: { backup_root: root } } })
  await write(one, 0, 100)
  const made = await post(one, 'backup', { target_dir: 'b' })
  t.equal(made.statusCode, 200, JSON.stringify(made.body))
  const [shard] = readdirSync(join(root, 'b', 'segments'))
  const [name] = readdirSync(join(root, 'b', 'segments', shard))
  const path = join(root, 'b', 'segments', shard, name)
  const whole = readFileSync(path)
  // Not in place: the file is the database's own too.
  const replace = (bytes: Uint8Array) => {
    unlinkSync(path)
    writeFileSync(path, bytes)
  }
  const flipped = Buffer.from(whole)
  flipped[whole.length >> 1] ^= 4
  const cases: [string, () => void, RegExp][] = [
    ['flip', () => replace(flipped), /has checksum/],
    ['truncate', () => replace(whole.subarray(0, whole.length - 3)), new RegExp(`has ${whole.length - 3} bytes, the manifest says ${whole.length}`)],
    ['longer', () => replace(Buffer.concat([whole, Buffer.from('x')])), new RegExp(`has ${whole.length + 1} bytes, the manifest says ${whole.length}`)],
    ['missing', () => unlinkSync(path), new RegExp(`of ${whole.length} bytes is missing`)],
  ]
  for (const [corruption, apply, text] of cases) {
    apply()
    for (const [route, body] of [
      ['backup/verify', { backup_dir: 'b' }],
      ['restore', { backup_dir: 'b', target_dir: 'r' }],
    ] as const) {
      const answer = await post(one, route, body)
      t.match(answer, { statusCode: 400, body: { code: 'INVALID_REQUEST', error: text } }, `${corruption}: ${route}`)
      t.match(answer.body.error, name)
    }
    writeFileSync(path, whole)
  }
  writeFileSync(join(root, 'b', 'extra'), 'garbage')
  t.match(await post(one, 'backup/verify', { backup_dir: 'b' }), { statusCode: 400, body: { error: /"extra" of 7 bytes is not in the manifest/ } })
  unlinkSync(join(root, 'b', 'extra'))
  t.same(await post(one, 'backup/verify', { backup_dir: 'b' }), made)
  truncateSync(join(root, 'b', 'backup_manifest.json'), 10)
  t.match(await post(one, 'restore', { backup_dir: 'b', target_dir: 'r' }), { statusCode: 400, body: { error: /backup_manifest\.json": it is corrupt/ } })
  t.match(await post(one, 'backup/verify', { backup_dir: 'none' }), { statusCode: 400, body: { error: /no such directory/ } })
  t.same(readdirSync(root), ['b'])
})

t.test('paths stay inside the backup root', async (t) => {
  const root = temporaryFolder(t)
  const outside = temporaryFolder(t)
  const one = await node(t, { config: { server: { backup_root: join(root, 'backups') } } })
  mkdirSync(join(root, 'backups', 'deep'), { recursive: true })
  symlinkSync(outside, join(root, 'backups', 'way-out'))
  symlinkSync(join(outside, 'nothing'), join(root, 'backups', 'dangling'))
  symlinkSync(join(root, 'backups', 'deep'), join(root, 'backups', 'way-in'))
  const refused = ['..', '../x', 'a/../../x', 'a\\..\\x', 'deep/..', '/', '/tmp/x', outside, '.', join(root, 'backups'), join(root, 'backups-of-another')]
  for (const path of [...refused, 'way-out/x', 'way-out', 'dangling', 'dangling/x', 'a\0b']) {
    for (const [route, body] of [
      ['backup', { target_dir: path }],
      ['backup/verify', { backup_dir: path }],
      ['restore', { backup_dir: path, target_dir: 'x' }],
      ['restore', { backup_dir: 'x', target_dir: path }],
    ] as const)
      t.match(await post(one, route, body), { statusCode: 400, body: { code: 'INVALID_REQUEST', error: /backup_root/ } }, `${route} ${path}`)
  }
  for (const body of [{}, { target_dir: '' }, { target_dir: 1 }, { target_dir: 'a', more: 1 }, []])
    t.match(await post(one, 'backup', body), { statusCode: 422, body: { code: 'INVALID_BODY' } })
  for (const path of ['plain', 'deep/er', join(root, 'backups', 'absolute'), 'way-in/linked'])
    t.equal((await post(one, 'backup', { target_dir: path })).statusCode, 200, path)
  t.ok(existsSync(join(root, 'backups', 'deep', 'linked', 'backup_manifest.json')))
  t.same(readdirSync(outside), [])
  t.match(await post(one, 'restore', { backup_dir: 'plain', target_dir: 'deep' }), { statusCode: 400, body: { code: 'INVALID_REQUEST', error: /exists/ } })
  t.equal(await metric(one, 'svc_backup_failures_total'), 0, 'a refused request is no failed backup')
})

t.test('one backup at a time', async (t) => {
  const one = await node(t)
  await write(one, 0, 1000)
  const answers = await Promise.all(['a', 'b', 'c'].map((target_dir) => post(one, 'backup', { target_dir })))
  t.same(answers.map(({ statusCode }) => statusCode).sort(), [200, 409, 409])
  t.match(
    answers.find(({ statusCode }) => statusCode === 409),
    { body: { code: 'CONFLICT', error: /another backup/ } },
  )
})

t.test('the routes are for administrators', async (t) => {
  const asked: string[] = []
  const guard = definePlugin({
    id: 'guard',
    summary: 'Refuses what administers',
    stability: 'experimental',
    setup(svc) {
      svc.auth.authenticator(() => ({ principal: 'somebody', method: 'test', claims: {}, namespaces: [], admin: true }))
      svc.auth.authorizer(({ action }) => {
        asked.push(action)
        return new SvcError('FORBIDDEN', 'not yours')
      })
    },
  })
  const one = await node(t, { plugins: [plugin, guard] })
  for (const route of ['backup', 'backup/verify', 'restore']) t.equal((await post(one, route, { target_dir: 'a', backup_dir: 'b' })).statusCode, 403)
  t.same(asked, ['admin', 'admin', 'admin'])
})

t.test('checkpoints: named by their time, the oldest go after a success, unfinished ones go', async (t) => {
  const root = temporaryFolder(t)
  const directory = join(root, 'checkpoints')
  for (const name of ['20200101T000000Z', 'notes', '20200230T000000Z']) mkdirSync(join(directory, name), { recursive: true })
  writeFileSync(join(directory, '20200101T000000Z', 'half'), 'unfinished')
  let now = Date.UTC(2024, 0, 1, 12)
  const clock: Clock = { ...systemClock, now: () => now }
  const one = await node(t, { clock, config: { server: { backup_root: root }, database: { checkpoints: { interval_secs: 1, keep: 2 } } } })
  const others = ['20200230T000000Z', 'notes']
  const checkpoints = () => readdirSync(directory).filter((name) => !others.includes(name) && existsSync(join(directory, name, 'backup_manifest.json')))
  const made = (name: string) => until(`checkpoint ${name}`, () => checkpoints().includes(name))
  await made('20240101T120000Z')
  await until('the unfinished one goes', () => !existsSync(join(directory, '20200101T000000Z')))
  for (const secs of [1, 2, 3]) {
    now = Date.UTC(2024, 0, 1, 12, 0, secs)
    await made(`20240101T12000${secs}Z`)
  }
  await until('the oldest go', () => checkpoints().length === 2)
  t.same(checkpoints(), ['20240101T120002Z', '20240101T120003Z'], 'keep = 2')
  t.same(
    others.filter((name) => existsSync(join(directory, name))),
    others,
    'nothing else is touched',
  )
  await until('they are counted', async () => (await metric(one, 'svc_backups_total')) >= 4)
  // 409 while the next checkpoint is at work.
  let verified = 409
  await until('it can be verified', async () => {
    verified = (await post(one, 'backup/verify', { backup_dir: 'checkpoints/20240101T120003Z' })).statusCode
    return verified !== 409
  })
  t.equal(verified, 200)
  // A failure removes nothing that is finished.
  await one.stop()
  const before = checkpoints()
  const target = join(root, 'no-directory')
  writeFileSync(target, '')
  const failing = await node(t, {
    config: { server: { backup_root: root }, database: { checkpoints: { interval_secs: 1, directory: join(target, 'x') } } },
  }).catch((error: Error) => error)
  t.match(failing, /ENOTDIR/, 'a directory that cannot be is found out at start')
  t.same(checkpoints(), before)
})

t.test('checkpoints of a database that was lost are not driven out by those of one that was begun anew', async (t) => {
  const root = temporaryFolder(t)
  const directory = join(root, 'checkpoints')
  const lines: string[] = []
  let now = Math.floor(Date.now() / 1000) * 1000
  const options = {
    clock: { ...systemClock, now: () => now },
    config: { server: { backup_root: root }, database: { checkpoints: { interval_secs: 1, keep: 2 } } },
  }
  const finished = () => (existsSync(directory) ? readdirSync(directory) : []).filter((name) => existsSync(join(directory, name, 'backup_manifest.json')))
  const passes = async (secs: number) => {
    for (let sec = 0; sec < secs; sec++) {
      now += 1000
      await until(`checkpoint of ${now}`, () => finished().includes(checkpointName(now)))
    }
  }
  const lost = await node(t, options)
  await until('the first', () => finished().length === 1)
  await write(lost, 0, 100)
  await write(lost, 100, 200)
  await passes(2)
  await until('two are left', () => finished().length === 2)
  await lost.stop()
  const kept = finished()
  // Another data directory, as where its volume is not there.
  const anew = await node(t, { ...options, log: (line) => lines.push(line) })
  await write(anew, 0, 10)
  await passes(4)
  await until('those of this one are as many as are kept', () => finished().length === 4)
  t.same(finished().slice(0, 2), kept)
  const told = () => lines.map((line) => JSON.parse(line)).filter(({ checkpoints }) => checkpoints !== undefined)
  t.match(
    told(),
    [
      { level: 'warn', checkpoints: [kept[0]] },
      { level: 'warn', checkpoints: kept, msg: /writes that this database does not have/ },
    ],
    'each once',
  )
  t.equal((await post(anew, 'backup/verify', { backup_dir: `checkpoints/${kept[1]}` })).statusCode, 200)
  for (let from = 10; from < 13; from++) await write(anew, from, from + 1)
  await passes(1)
  await until('it has had as many', () => finished().length === 2)
  t.same(finished(), [checkpointName(now - 1000), checkpointName(now)])
})

t.test('names and times of checkpoints', async (t) => {
  t.equal(checkpointName(Date.UTC(2024, 1, 29, 23, 59, 59, 999)), '20240229T235959Z')
  t.equal(checkpointTime('20240229T235959Z'), Date.UTC(2024, 1, 29, 23, 59, 59))
  for (const name of ['20230229T000000Z', '20240101T240000Z', '20240101T000000', 'x20240101T000000Z', '20240101T000000Z.tmp'])
    t.equal(checkpointTime(name), undefined, name)
  const [a, b, c, d] = [1, 2, 3, 4].map((hour) => checkpointName(Date.UTC(2024, 0, 1, hour)))
  t.same(surplus([c, a, d, b], 3, d), [a])
  t.same(surplus([a, b], 3, b), [])
  t.same(surplus([a, b, c, d], 1, d), [a, b, c])
  t.same(surplus([b, c, d, a], 3, a), [b], 'the clock was set back: the one just made stays')
  const now = Date.UTC(2024, 0, 1, 4, 30)
  const hour = 3_600_000
  t.equal(waitFor([], hour, now), 0)
  t.equal(waitFor([a, d], hour, now), hour / 2)
  t.equal(waitFor([a], hour, now), 0)
  const ahead = ['20340101T000000Z', '20340101T010000Z', '20340101T020000Z']
  t.equal(waitFor(ahead, hour, now), 0, 'times to come do not stop them, also where each start comes before an hour is over')
  t.equal(waitFor([d, ...ahead], hour, now), hour / 2)
  t.same(surplus([c, d, ...ahead], 4, d), ahead.slice(0, 1), 'nor do they drive out those that are made since')
  t.same(surplus([b, c, d, ...ahead.slice(1)], 4, d), ahead.slice(1, 2))
})
