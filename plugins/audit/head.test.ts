/** What the state store knows of the audit log: what a start and `svc audit verify` make of it. */
import { copyFileSync, existsSync, readdirSync, readFileSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setImmediate, setTimeout } from 'node:timers/promises'
import type { AuditRecord } from 'svcdb'
import { boot, mapState, run, temporaryFolder } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { sealBy } from './entry.ts'
import { HeadKeeper, readBeginnings, readHead } from './head.ts'
import plugin from './index.ts'
import { check, entriesOf, FaultyFiles, linesOf, makeAuditLog, metadataOf } from './testing.ts'
import { verify } from './verify.ts'

t.setTimeout(120_000)
const seal = sealBy(undefined)
const entry = (resource: string): AuditRecord => ({ action: 'admin', resource, decision: 'allow' })

/** A log of entries 1 to `count`, and a state store that knows the last. */
async function logged(t: Test, count = 5) {
  const path = join(temporaryFolder(t), 'audit.jsonl')
  const state = mapState()
  const auditLog = makeAuditLog(path, { state })
  for (let i = 1; i <= count; i++) await auditLog.record(entry(`r${i}`))
  await auditLog.stop()
  return { path, state, head: await readHead(state) }
}

/** Starts on what is there, records one entry and stops. @returns what the start noted. */
async function next(path: string, state = mapState()): Promise<Record<string, string>[]> {
  const auditLog = makeAuditLog(path, { state })
  await auditLog.record(entry('next'))
  await auditLog.stop()
  return entriesOf(path)
    .filter(({ action }) => action === 'custom')
    .map(metadataOf)
}

t.test('a stop leaves the last entry noted, and a start that finds it says nothing', async (t) => {
  const { path, state, head } = await logged(t)
  const last = entriesOf(path).at(-1)
  t.same(head, { id: 5n, hash: last?.hash })
  t.same(await next(path, state), [])
  t.match(await check(path), { entries: 6, broken: undefined })
  t.equal((await readHead(state))?.id, 6n)
})

t.test('entries that are newer than the head are those of a crash between the two', async (t) => {
  const { path, state, head } = await logged(t)
  const before = mapState()
  await before.transaction((tx) => tx.put('head', { id: '3', hash: entriesOf(path)[2].hash }))
  t.same(await next(path, before), [])
  t.equal((await readHead(before))?.id, 6n)
  t.equal(head?.id, 5n)
  t.same(await readHead(state), head)
})

t.test('a log without a head is one of an older version, and is taken as it is', async (t) => {
  const { path } = await logged(t)
  const state = mapState()
  const auditLog = makeAuditLog(path, { state })
  await auditLog.open()
  await auditLog.stop()
  t.same(await readHead(state), { id: 5n, hash: entriesOf(path)[4].hash })
})

t.test('a log that was emptied, moved away or is not there in a restored copy: the chain goes on after the head', async (t) => {
  for (const how of ['emptied', 'moved away']) {
    const { path, state, head } = await logged(t)
    if (how === 'emptied') truncateSync(path)
    else renameSync(path, `${path}.1`)
    t.match(await next(path, state), [{ event: 'entries_missing', last_id: '5', last_hash: head?.hash, found_id: '0' }], how)
    const [first] = entriesOf(path)
    t.match(first, { id: 6n, prevHash: head?.hash })
    t.match((await check(path)).broken, { line: 1, problem: /the entries before it are missing/ })
    t.match(
      await verify([path], seal, { beginning: { afterAny: await readBeginnings(state) } }),
      { entries: 2, broken: undefined },
      'the state store knows where it begins',
    )
    if (how === 'moved away') t.match(await verify([`${path}.1`, path], seal, { beginning: 'first' }), { entries: 7, broken: undefined })
  }
})

t.test('a log whose end was cut off, or that another was put in place of, is set aside', async (t) => {
  const other = await logged(t, 9)
  const changes: [string, (path: string, lines: string[]) => void, RegExp][] = [
    ['cut', (path, lines) => writeFileSync(path, `${lines.slice(0, 3).join('\n')}\n`), /^it ends with entry 3, the state store has 5 as the last$/],
    ['another', (path) => copyFileSync(other.path, path), /^entry 5 has the hash \w{64}, the state store has \w{64}$/],
    ['another that begins behind', (path) => writeFileSync(path, `${linesOf(other.path).slice(5).join('\n')}\n`), /^entry 5 has the hash \w{64}/],
  ]
  for (const [what, change, problem] of changes) {
    const { path, state, head } = await logged(t)
    change(path, linesOf(path))
    const changed = readFileSync(path, 'utf8')
    const lines: string[] = []
    const auditLog = makeAuditLog(path, { state, log: (line) => lines.push(line) })
    await auditLog.record(entry('next'))
    await auditLog.stop()
    const [note, added] = entriesOf(path)
    t.match(metadataOf(note), { event: 'entries_missing', last_id: '5', problem }, what)
    t.match(
      [note, added],
      [
        { id: 6n, prevHash: head?.hash },
        { id: 7n, resource: 'next' },
      ],
    )
    t.equal(readFileSync(metadataOf(note).set_aside, 'utf8'), changed)
    t.ok(lines.some((line) => JSON.parse(line).event === 'entries_missing' && line.includes('"level":"error"')))
  }
})

t.test(
  'a file that begins behind the head, as of another log or beside a restored database, is gone on with, and its next entry says what is missing',
  async (t) => {
    const other = await logged(t, 9)
    const { path, state, head } = await logged(t)
    writeFileSync(path, `${linesOf(other.path).slice(7).join('\n')}\n`)
    const lines: string[] = []
    const auditLog = makeAuditLog(path, { state, log: (line) => lines.push(line) })
    await auditLog.record(entry('next'))
    await auditLog.stop()
    const [first, last, note, added] = entriesOf(path)
    t.match([first, last, added], [{ id: 8n }, { id: 9n }, { id: 11n, resource: 'next' }])
    t.match(note, { id: 10n, prevHash: last.hash })
    t.same(metadataOf(note), { event: 'entries_missing', last_id: '5', last_hash: head?.hash, found_id: '9', problem: 'it begins with entry 8' })
    t.ok(lines.some((line) => JSON.parse(line).event === 'entries_missing' && line.includes('"level":"error"')))
    t.same(await next(path, state), [metadataOf(note)], 'said once')
  },
)

t.test('corruption that hides the end does not take the numbers back', async (t) => {
  const { path, state, head } = await logged(t)
  const lines = linesOf(path)
  writeFileSync(path, `${[...lines.slice(0, 4), lines[4].replace('"r5"', '"r6"')].join('\n')}\n`)
  const notes = await next(path, state)
  t.match(notes, [{ event: 'damage_found', problems: '1' }])
  t.match(entriesOf(path)[0], { id: 6n, prevHash: head?.hash })
})

t.test('a file that is moved away while the server runs begins where the state store says', async (t) => {
  const path = join(temporaryFolder(t), 'audit.jsonl')
  const state = mapState()
  const auditLog = makeAuditLog(path, { state })
  for (let file = 0; file < 3; file++) {
    for (let i = 0; i < 3; i++) await auditLog.record(entry(`${file}.${i}`))
    renameSync(path, `${path}.${file}`)
  }
  await auditLog.record(entry('last'))
  await auditLog.stop()
  t.equal((await readBeginnings(state)).size, 3)
  for (const file of [`${path}.1`, `${path}.2`, path]) {
    t.match((await check(file)).broken, { line: 1 })
    t.match(await verify([file], seal, { beginning: { afterAny: await readBeginnings(state) } }), { broken: undefined })
  }
  const foreign = await logged(t)
  writeFileSync(foreign.path, `${linesOf(foreign.path).slice(2).join('\n')}\n`)
  t.match((await verify([foreign.path], seal, { beginning: { afterAny: await readBeginnings(state) } })).broken, { line: 1 })
})

t.test('only what is synced is noted', async (t) => {
  const path = join(temporaryFolder(t), 'audit.jsonl')
  const state = mapState()
  const files = new FaultyFiles()
  const auditLog = makeAuditLog(path, { state, files, config: { sync_each: false, sync_interval_ms: 60_000 } })
  await auditLog.record(entry('one'))
  await setImmediate()
  t.equal(await readHead(state), undefined)
  files.failSync = 'EIO'
  await t.rejects(auditLog.stop(), { code: 'EIO' })
  t.equal(await readHead(state), undefined, 'nor what could not be synced at the stop')
})

t.test('what a stop syncs, it notes', async (t) => {
  const path = join(temporaryFolder(t), 'audit.jsonl')
  const state = mapState()
  const auditLog = makeAuditLog(path, { state, config: { sync_each: false, sync_interval_ms: 60_000 } })
  await auditLog.record(entry('one'))
  await auditLog.stop()
  t.equal((await readHead(state))?.id, 1n)
})

t.test('a state store that fails holds up no entry, is reported once, and gets the newest in the end', async (t) => {
  const path = join(temporaryFolder(t), 'audit.jsonl')
  let failing = true
  const state = mapState(() => {
    if (failing) throw new Error('the disk is full')
  })
  const lines: string[] = []
  const auditLog = makeAuditLog(path, { state, log: (line) => lines.push(line) })
  for (let i = 1; i <= 5; i++) await auditLog.record(entry(`r${i}`))
  t.equal(entriesOf(path).length, 5)
  failing = false
  await auditLog.stop()
  t.equal((await readHead(state))?.id, 5n)
  t.equal(lines.filter((line) => line.includes('cannot be noted in the state store')).length, 1)
})

t.test('where a file begins is noted as soon as the state store takes it', async (t) => {
  const path = join(temporaryFolder(t), 'audit.jsonl')
  let failing = false
  const state = mapState(() => {
    if (failing) throw new Error('the disk is full')
  })
  const auditLog = makeAuditLog(path, { state })
  await auditLog.record(entry('one'))
  failing = true
  renameSync(path, `${path}.1`)
  await auditLog.record(entry('two'))
  // Tried by now, and refused.
  await setTimeout(600)
  failing = false
  await auditLog.stop()
  t.match(await verify([path], seal, { beginning: { afterAny: await readBeginnings(state) } }), { broken: undefined })
})

t.test('many entries are few notes, one at a time', async (t) => {
  let commits = 0
  const state = mapState(() => void commits++)
  const keeper = await HeadKeeper.open({ state, failed: (error) => t.fail(String(error)), intervalMs: 3_600_000 })
  for (let id = 1n; id <= 1000n; id++) keeper.note({ id, hash: String(id) })
  await setImmediate()
  t.equal(commits, 1, 'the first at once')
  t.same(await readHead(state), { id: 1n, hash: '1' })
  await keeper.close()
  await keeper.close()
  t.equal(commits, 2)
  t.same(await readHead(state), { id: 1000n, hash: '1000' })
})

t.test('svc audit verify compares with the state store, while the server runs and when it does not', async (t) => {
  const dir = temporaryFolder(t)
  const path = join(dir, 'audit.jsonl')
  const file = join(dir, 'svc.toml')
  writeFileSync(file, `plugins = ["audit"]\n[database]\ndata_dir = ${JSON.stringify(dir)}\n`)
  const svc = async (...flags: string[]) => {
    const text = { out: '', err: '' }
    const io = { env: {}, out: (s: string) => void (text.out += s), err: (s: string) => void (text.err += s), stopSignal: Promise.resolve('') }
    return { code: await run(['audit', 'verify', '-c', file, ...flags], io), ...text }
  }
  const start = () => boot({ plugins: [plugin], storage: './storage/embedded/index.ts', config: { database: { data_dir: dir } } as never })
  let node = await start()
  const read = () => node.inject('/api/v1/admin/audit')
  for (let i = 0; i < 3; i++) await read()
  t.match(await svc(), { code: 0, out: /^whole: 3 entries/ })
  renameSync(path, `${path}.1`)
  await read()
  await node.stop()
  t.match(await svc(), { code: 0, out: /^whole: 2 entries, ids 4 to 5, .*\nthe last entry that the state store has, 5, is there, with 0 entries after it\n$/ })
  t.match(await svc('--expect-last', entriesOf(path)[0].hash), { code: 0, out: /the expected hash is there, with 1 entries after it/ })
  const whole = readFileSync(path)
  writeFileSync(path, `${linesOf(path)[0]}\n`)
  t.match(await svc(), {
    code: 1,
    err: /^broken: the state store has entry 5 with hash \w{64} as the last: the end was cut off, or the file is another one\n1 entries/,
  })
  truncateSync(path)
  t.match(await svc(), { code: 1, err: /the end was cut off/ })
  writeFileSync(path, whole)
  node = await start()
  await node.stop()
  t.match(await svc(), { code: 0 })
  rmSync(join(dir, 'catalog'), { recursive: true })
  t.match(await svc(), { code: 1, err: /the entries before it are missing/ })
  t.ok(existsSync(`${path}.1`) && readdirSync(dirname(path)).length > 0)
})
