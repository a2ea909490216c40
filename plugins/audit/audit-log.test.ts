/** The audit log on disks that are slow, full and failing, and what a start finds. */
import { appendFileSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Clock } from 'svcdb'
import { seeded } from 'svcdb/lib/random'
import { systemClock } from 'svcdb/testkit'
import t from 'tap'
import { sealBy } from './entry.ts'
import { check, entriesOf, entry, FaultyFiles, linesOf, makeAuditLog, metadataOf, outcome, pathIn, stopAtEnd } from './testing.ts'

const seed = Number(process.env.SVC_SEED ?? Date.now() % 1e9)
t.test('1,000 at once are in the order of their ids, and share syncs', async (t) => {
  const path = pathIn(t)
  const files = new FaultyFiles()
  const auditLog = await stopAtEnd(t, makeAuditLog(path, { files }))
  const order: number[] = []
  await Promise.all(Array.from({ length: 1000 }, (_, i) => auditLog.record(entry(String(i))).then(() => void order.push(i))))
  t.same(
    order,
    Array.from({ length: 1000 }, (_, i) => i),
  )
  t.same(
    entriesOf(path).map(({ resource }) => resource),
    order.map(String),
  )
  t.match(await check(path), { entries: 1000, broken: undefined })
  t.ok(files.syncs < 20, `${files.syncs} syncs`)
})

t.test('the name of a new file is on the disk before its first entry is', async (t) => {
  const path = pathIn(t)
  const files = new FaultyFiles()
  const steps: string[] = []
  const open = files.open.bind(files)
  files.open = async (...args) => {
    const file = await open(...args)
    const sync = async () => {
      if (args[0] === dirname(path)) steps.push('name')
      await file.sync()
    }
    return { ...file, sync }
  }
  files.before = () => void steps.push('entry')
  const auditLog = await stopAtEnd(t, makeAuditLog(path, { files }))
  await auditLog.record(entry('a'))
  t.same(steps, ['name', 'entry'])
})

t.test('an entry is on the disk before its promise resolves, and not before all of it is', async (t) => {
  const path = pathIn(t)
  const files = new FaultyFiles()
  const auditLog = await stopAtEnd(t, makeAuditLog(path, { files }))
  files.perWrite = 7
  await Promise.all(
    ['a', 'b', 'c'].map(async (resource) => {
      await auditLog.record(entry(resource))
      const synced = readFileSync(path).subarray(0, files.synced.get(path))
      t.match(synced.toString(), `"resource":"${resource}"`)
    }),
  )
  t.match(await check(path), { entries: 3, broken: undefined })
})

t.test('timestamps grow even while the clock stands still or goes back, over a restart too', async (t) => {
  const path = pathIn(t)
  let now = 1_700_000_000_000_000_000n
  const clock: Clock = { ...systemClock, nowNanos: () => now }
  const first = await stopAtEnd(t, makeAuditLog(path, { clock }))
  for (let i = 0; i < 3; i++) await first.record(entry('x'))
  now -= 1_000_000_000n
  await first.record(entry('x'))
  await first.stop()
  const second = await stopAtEnd(t, makeAuditLog(path, { clock }))
  await second.record(entry('x'))
  t.same(
    entriesOf(path).map(({ timestamp }) => timestamp - 1_700_000_000_000_000_000n),
    [0n, 1n, 2n, 3n, 4n],
  )
})

t.test('a full disk: refused with STORAGE_FULL, nothing half there, and on with the next id once there is room', async (t) => {
  const path = pathIn(t)
  const files = new FaultyFiles()
  const lines: string[] = []
  const auditLog = await stopAtEnd(t, makeAuditLog(path, { files, log: (line) => lines.push(line) }))
  await auditLog.record(entry('before'))
  files.room = 100 // the beginning of a line
  t.same(await Promise.all(['a', 'b'].map((resource) => outcome(auditLog.record(entry(resource))))), ['STORAGE_FULL', 'STORAGE_FULL'])
  t.equal(await outcome(auditLog.record(entry('c'))), 'STORAGE_FULL')
  t.match(await check(path), { entries: 1, broken: undefined })
  await t.rejects(auditLog.record(entry('d')), { code: 'STORAGE_FULL', message: /free space and retry, no restart is needed/ })
  files.room = Number.POSITIVE_INFINITY
  await auditLog.record(entry('after'))
  t.same(
    entriesOf(path).map(({ id, resource }) => [id, resource]),
    [
      [1n, 'before'],
      [2n, 'after'],
    ],
  )
  t.match(await check(path), { entries: 2, broken: undefined })
  t.equal(lines.filter((line) => line.includes('cannot be written')).length, 1, 'told once')
  t.equal(lines.filter((line) => line.includes('is written again')).length, 1)
})

t.test('a failed sync takes the lines back; so does one whose lines cannot be taken back at once', async (t) => {
  const path = pathIn(t)
  const files = new FaultyFiles()
  const auditLog = await stopAtEnd(t, makeAuditLog(path, { files }))
  await auditLog.record(entry('before'))
  files.failSync = 'EIO'
  await t.rejects(auditLog.record(entry('a')), { code: 'OVERLOADED', message: /cannot be written \(EIO\)/ })
  t.equal(linesOf(path).length, 1)
  files.failTruncate = 'EIO'
  t.equal(await outcome(auditLog.record(entry('b'))), 'OVERLOADED')
  t.equal(linesOf(path).length, 2, 'it cannot be taken back now')
  files.failSync = undefined
  t.equal(await outcome(auditLog.record(entry('c'))), 'OVERLOADED', 'and nothing may follow it')
  files.failTruncate = undefined
  await auditLog.record(entry('d'))
  t.same(
    entriesOf(path).map(({ id, resource }) => [id, resource]),
    [
      [1n, 'before'],
      [2n, 'd'],
    ],
  )
  t.match(await check(path), { broken: undefined })
})

t.test('lines that cannot be taken back, and are gone by then with all others, leave no zeros in their place', async (t) => {
  const path = pathIn(t)
  const files = new FaultyFiles()
  const auditLog = await stopAtEnd(t, makeAuditLog(path, { files }))
  await auditLog.record(entry('before'))
  files.failSync = 'EIO'
  files.failTruncate = 'EIO'
  t.equal(await outcome(auditLog.record(entry('a'))), 'OVERLOADED')
  truncateSync(path)
  files.failSync = undefined
  files.failTruncate = undefined
  await auditLog.record(entry('b'))
  t.match(
    entriesOf(path).map(({ resource, metadata }) => Object.fromEntries(metadata).event ?? resource),
    ['file_changed', 'b'],
  )
})

t.test('with fail_closed false it goes on, and the next entry says how many are missing', async (t) => {
  const path = pathIn(t)
  const files = new FaultyFiles()
  const auditLog = await stopAtEnd(t, makeAuditLog(path, { files, config: { fail_closed: false } }))
  files.room = 0
  for (const resource of ['a', 'b', 'c']) t.equal(await outcome(auditLog.record(entry(resource))), 'kept')
  files.room = Number.POSITIVE_INFINITY
  await auditLog.record(entry('d'))
  await auditLog.record(entry('e'))
  const [lost, ...rest] = entriesOf(path)
  t.match(lost, { principal: 'system', action: 'custom' })
  t.match(metadataOf(lost), { event: 'entries_lost', count: '3' })
  t.same(
    rest.map(({ resource }) => resource),
    ['d', 'e'],
  )
  t.match(await check(path), { broken: undefined })
})

t.test('a refusal that cannot be kept is counted, and told of later', async (t) => {
  const path = pathIn(t)
  const files = new FaultyFiles()
  const auditLog = await stopAtEnd(t, makeAuditLog(path, { files }))
  files.room = 0
  const by = { principal: 'anonymous', address: '192.0.2.7', requestId: 'r' }
  for (let i = 0; i < 3; i++)
    t.equal(await outcome(auditLog.record(entry('/x', { action: 'login_failure', decision: 'deny', by }))), 'kept', 'it is refused anyway')
  files.room = Number.POSITIVE_INFINITY
  await auditLog.stop()
  const [counted, ...rest] = entriesOf(path)
  t.same(rest, [])
  t.match(counted, { action: 'login_failure', decision: 'deny', sourceIp: '192.0.2.7' })
  t.match(metadataOf(counted), { event: 'counted', count: '3' })
})

t.test('the queue is bounded', async (t) => {
  const path = pathIn(t)
  const files = new FaultyFiles()
  const auditLog = await stopAtEnd(t, makeAuditLog(path, { files, config: { max_queue: 2 } }))
  const held = files.hold()
  const first = outcome(auditLog.record(entry('written')))
  await held.begun
  const waiting = ['a', 'b'].map((resource) => outcome(auditLog.record(entry(resource))))
  await t.rejects(auditLog.record(entry('c')), { code: 'OVERLOADED', message: /2 entries wait .*audit\.max_queue/ })
  held.release()
  t.same(await Promise.all([first, ...waiting]), ['kept', 'kept', 'kept'])
})

t.test('with fail_closed false an entry that is lost while others are written is told of too', async (t) => {
  const path = pathIn(t)
  const files = new FaultyFiles()
  const auditLog = await stopAtEnd(t, makeAuditLog(path, { files, config: { fail_closed: false, max_queue: 2 } }))
  const held = files.hold()
  const first = outcome(auditLog.record(entry('written')))
  await held.begun
  const waiting = ['a', 'b'].map((resource) => outcome(auditLog.record(entry(resource))))
  t.equal(await outcome(auditLog.record(entry('c'))), 'kept')
  held.release()
  await Promise.all([first, ...waiting])
  t.match(
    entriesOf(path).map((kept) => metadataOf(kept).count ?? kept.resource),
    ['written', '1', 'a', 'b'],
  )
  await auditLog.stop()
  t.equal(await outcome(auditLog.record(entry('d'))), 'DATABASE_CLOSED', 'after the stop nobody is left to tell of it')
})

t.test('with sync_each false the disk is synced by the clock, and at the stop', async (t) => {
  const path = pathIn(t)
  const files = new FaultyFiles()
  const auditLog = await stopAtEnd(t, makeAuditLog(path, { files, config: { sync_each: false, sync_interval_ms: 10 } }))
  await auditLog.record(entry('a'))
  t.match(readFileSync(path, 'utf8'), '"resource":"a"')
  for (let i = 0; i < 12_000 && files.synced.get(path) !== readFileSync(path).length; i++) await new Promise((done) => setTimeout(done, 5))
  t.equal(files.synced.get(path), readFileSync(path).length)
  files.failSync = 'EIO'
  await auditLog.record(entry('b'))
  let refused = 'kept'
  for (let i = 0; i < 1000 && refused === 'kept'; i++) {
    await new Promise((done) => setTimeout(done, 5))
    refused = await outcome(auditLog.record(entry('c')))
  }
  t.equal(refused, 'OVERLOADED', 'after a sync that failed nothing is accepted until one succeeds')
  files.failSync = undefined
  await auditLog.record(entry('d'))
  await auditLog.stop()
  t.equal(files.synced.get(path), readFileSync(path).length)
  t.match(await check(path), { broken: undefined })
})

t.test('wherever a crash cuts the file, the start cuts off half a line, tells of it and goes on', async (t) => {
  const path = pathIn(t)
  const auditLog = await stopAtEnd(t, makeAuditLog(path))
  for (const resource of ['a', 'b']) await auditLog.record(entry(resource))
  await auditLog.stop()
  const whole = readFileSync(path)
  const firstEnds = whole.indexOf('\n') + 1
  for (let length = 0; length <= whole.length; length += length % 50 < 8 ? 1 : 13) {
    writeFileSync(path, whole.subarray(0, length))
    const lines: string[] = []
    const again = makeAuditLog(path, { log: (line) => lines.push(line) })
    await again.open()
    await again.record(entry('c'))
    await again.stop()
    const [kept, half] = length < firstEnds ? [0, length] : length < whole.length ? [1, length - firstEnds] : [2, 0]
    const entries = entriesOf(path)
    t.equal(entries.length, kept + (half > 0 ? 1 : 0) + 1, `cut at ${length}`)
    if (half > 0) {
      t.match(metadataOf(entries[kept]), { event: 'half_line_cut', bytes: String(half) })
      t.ok(lines.some((line) => line.includes('half a line')))
    }
    t.match(await check(path), { broken: undefined })
  }
})

t.test('zeros at the end, which a file system may leave, are cut off like half a line', async (t) => {
  const path = pathIn(t)
  const auditLog = await stopAtEnd(t, makeAuditLog(path))
  await auditLog.record(entry('a'))
  await auditLog.stop()
  appendFileSync(path, Buffer.alloc(100_000))
  const again = await stopAtEnd(t, makeAuditLog(path))
  t.match(metadataOf(entriesOf(path)[1]), { event: 'half_line_cut', bytes: '100000' })
  await again.stop()
  t.match(await check(path), { entries: 2, broken: undefined })
})

t.test('a corrupted end, or another key: the file is set aside, and the chain goes on in a new one', async (t) => {
  const path = pathIn(t)
  const auditLog = await stopAtEnd(t, makeAuditLog(path, { seal: sealBy(Buffer.from('one')) }))
  for (const resource of ['a', 'b', 'c']) await auditLog.record(entry(resource))
  await auditLog.stop()
  const old = entriesOf(path)
  const lines: string[] = []
  const again = await stopAtEnd(t, makeAuditLog(path, { seal: sealBy(Buffer.from('two')), log: (line) => lines.push(line) }))
  const [note] = entriesOf(path)
  t.match(note, { id: 4n, prevHash: old[2].hash, principal: 'system' })
  const { event, set_aside: aside, problems } = metadataOf(note)
  t.match({ event, problems }, { event: 'damage_found', problems: '3' })
  t.same(entriesOf(aside), old, 'nothing is lost')
  t.ok(lines.some((line) => JSON.parse(line).level === 'error' && line.includes('another key')))
  await again.stop()

  const aged = linesOf(path)
  writeFileSync(path, `${aged[0].replace('"system"', '"nobody"')}\n`)
  const third = await stopAtEnd(t, makeAuditLog(path, { seal: sealBy(Buffer.from('two')) }))
  t.match(metadataOf(entriesOf(path)[0]), { event: 'damage_found', first: /line 1: event_hash/ })
  await third.stop()
  const fourth = await stopAtEnd(t, makeAuditLog(path, { seal: sealBy(Buffer.from('two')) }))
  t.equal(entriesOf(path).length, 1, 'the new file is sound')
  await fourth.stop()
})

t.test('whatever byte of the only entry is changed, the start goes on', async (t) => {
  const path = pathIn(t)
  const auditLog = await stopAtEnd(t, makeAuditLog(path))
  await auditLog.record(entry('a'))
  await auditLog.stop()
  const whole = readFileSync(path)
  const inHash = whole.indexOf('event_hash') + 3
  for (const at of [0, 3, 6, 10, inHash, whole.length - 2, ...Array.from({ length: 8 }, (_, i) => Math.floor((i * whole.length) / 8))]) {
    const changed = Buffer.from(whole)
    changed[at] ^= 1
    writeFileSync(path, changed)
    const again = makeAuditLog(path, { config: { sync_each: false } })
    await again.record(entry('b'))
    await again.stop()
    const [note, next] = entriesOf(path)
    t.equal(metadataOf(note).event, 'damage_found', `byte ${at}`)
    t.same(readFileSync(metadataOf(note).set_aside), changed, 'nothing is lost')
    t.equal(next.resource, 'b')
  }
})

t.test('a file that is no audit log is not touched', async (t) => {
  const path = pathIn(t)
  mkdirSync(dirname(path))
  for (const text of ['# notes\n', 'plugins = []', '{"level":"info"}\n', '{"id":1}\n', 'x'.repeat(5 << 20), `\n${'x'.repeat(5 << 20)}`]) {
    writeFileSync(path, text)
    const auditLog = makeAuditLog(path)
    await t.rejects(auditLog.open(), { code: 'CONFIG_ERROR', message: /is no audit log; move it away/ }, text.slice(0, 20))
    await auditLog.stop()
    t.equal(readFileSync(path, 'utf8'), text)
  }
  rmSync(path)
  mkdirSync(path)
  const unusable = { code: 'IO_ERROR', message: /^cannot use audit\.path ".*": E[A-Z]+: .*; name a file that can be written/ }
  await t.rejects(makeAuditLog(path).open(), unusable)
  writeFileSync(join(path, 'file'), '')
  await t.rejects(makeAuditLog(join(path, 'file', 'audit.jsonl')).open(), unusable, 'its directory is a file')
})

t.test('one audit log has one server', async (t) => {
  const path = pathIn(t)
  const first = await stopAtEnd(t, makeAuditLog(path))
  const second = makeAuditLog(path)
  await t.rejects(second.open(), { code: 'CONFIG_ERROR', message: /process \d+ writes it/ })
  await second.stop()
  await first.record(entry('a'))
  await first.stop()
  // Of a process that is gone, and of one whose pid is another's now.
  for (const holder of ['{"pid":4194304,"started":"1"}', `{"pid":${process.pid},"started":"1"}`, 'nonsense']) {
    symlinkSync(holder, `${path}.lock`)
    const third = await stopAtEnd(t, makeAuditLog(path))
    await third.stop()
  }
  writeFileSync(`${path}.lock`, 'a file of somebody')
  await t.rejects(makeAuditLog(path).open(), { code: 'CONFIG_ERROR', message: /is no lock/ })
  rmSync(`${path}.lock`)
  t.same(readdirSync(dirname(path)), ['audit.jsonl', 'audit.jsonl.lock.os'], 'nothing else is left behind')
})

t.test('power cuts under concurrent records: what was acknowledged is there, and the chain holds', async (t) => {
  t.comment(`seed ${seed}`)
  const random = seeded(seed)
  const path = pathIn(t)
  const acknowledged = new Set<string>()
  let next = 0
  for (let round = 0; round < 25; round++) {
    const files = new FaultyFiles()
    files.perWrite = 1 + Math.floor(random() * 2000)
    const auditLog = makeAuditLog(path, { files })
    await auditLog.open()
    let on = true
    const caller = async () => {
      for (let i = 0; i < 10 && on; i++) {
        const resource = String(next++)
        if (random() < 0.1) files.failSync = random() < 0.5 ? 'EIO' : undefined
        if (random() < 0.1) files.room = random() < 0.5 ? Math.floor(random() * 3000) : Number.POSITIVE_INFINITY
        if ((await outcome(auditLog.record(entry(resource)))) === 'kept' && on) acknowledged.add(resource)
      }
    }
    const cut = Math.floor(random() * 60)
    let left: Buffer | undefined
    files.before = () => {
      if (files.writes < cut || !on) return
      on = false
      left = files.afterPowerCut(path, random)
    }
    await Promise.all(Array.from({ length: 8 }, caller))
    left ??= files.afterPowerCut(path, random)
    Object.assign(files, { room: Number.POSITIVE_INFINITY, failSync: undefined })
    await auditLog.stop()
    writeFileSync(path, left)
    const again = makeAuditLog(path)
    await again.open()
    await again.stop()
    const { broken } = await check(path)
    t.equal(broken, undefined, `round ${round}`)
    const there = new Set(entriesOf(path).map(({ resource }) => resource))
    t.same(
      [...acknowledged].filter((resource) => !there.has(resource)),
      [],
      `round ${round}`,
    )
  }
  t.ok(acknowledged.size > 50, `${acknowledged.size} acknowledged`)
})
