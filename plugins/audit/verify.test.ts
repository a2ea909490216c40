import { copyFileSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { run, temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { type Entry, sealBy, sealedText } from './entry.ts'
import { parseEntry } from './parse.ts'
import { check, entriesOf, linesOf, makeAuditLog } from './testing.ts'

const KEY = 'a key that nobody knows, of 32+ bytes'
const seal = sealBy(Buffer.from(KEY))

async function svc(args: string[], env: Record<string, string> = {}): Promise<{ code: number; out: string; err: string }> {
  const text = { out: '', err: '' }
  const code = await run(['audit', ...args], { env, out: (s) => void (text.out += s), err: (s) => void (text.err += s), stopSignal: Promise.resolve('') })
  return { code, ...text }
}

async function sample(path: string, count = 6): Promise<string[]> {
  const auditLog = makeAuditLog(path, { seal })
  const by = { principal: 'ann', address: '192.0.2.7', requestId: 'r1' }
  for (let i = 0; i < count; i++)
    await auditLog.record({ action: 'admin', resource: '/x', decision: 'allow', by, metadata: { policy_id: `p${i}`, duration_us: '12' } })
  await auditLog.stop()
  return linesOf(path)
}

t.test('a change of any member is found, at its line', async (t) => {
  const path = join(temporaryFolder(t), 'audit.jsonl')
  const lines = await sample(path)
  t.match(await check(path, seal), { entries: 6, firstId: 1n, lastId: 6n, broken: undefined })
  const changes: [string, string][] = [
    ['"id":3', '"id":4'],
    [/"timestamp":\d+/.exec(lines[2])?.[0] as string, '"timestamp":1'],
    ['"ann"', '"bob"'],
    ['"admin"', '"read"'],
    ['"/x"', '"/y"'],
    ['"allow"', '"deny"'],
    ['"source_ip":"192.0.2.7","request', '"source_ip":"192.0.2.8","request'],
    ['"source_ip":"192.0.2.7","request_id":"r1","metadata"', '"request_id":"r1","metadata"'],
    ['"request_id":"r1","metadata"', '"request_id":"r2","metadata"'],
    ['"p2"', '"p3"'],
    ['"policy_id"', '"policy_ix"'],
    ['"duration_us":"12",', ''],
    ['"prev_hash":"', '"prev_hash":"0'],
    [/"event_hash":"\w+"/.exec(lines[2])?.[0] as string, `"event_hash":"${'0'.repeat(64)}"`],
    [/"prev_hash":"\w+",/.exec(lines[2])?.[0] as string, ''],
    ['}', ' }x'],
  ]
  for (const [from, to] of changes) {
    const changed = lines[2].replace(from, to)
    t.not(changed, lines[2], from)
    writeFileSync(path, `${[...lines.slice(0, 2), changed, ...lines.slice(3)].join('\n')}\n`)
    t.match((await check(path, seal)).broken, { line: 3 }, `${from} → ${to}`)
  }
})

t.test('a time that is not later than that of the entry before is found, also where whoever wrote it has the key', async (t) => {
  const path = join(temporaryFolder(t), 'audit.jsonl')
  const lines = await sample(path, 2)
  const [first, second] = lines.map((line) => parseEntry(line) as Entry)
  const back = lines[1].replace(`"timestamp":${second.timestamp}`, `"timestamp":${first.timestamp}`)
  const sealed = back.replace(second.hash, seal(sealedText(parseEntry(back) as Entry)))
  writeFileSync(path, `${lines[0]}\n${sealed}\n`)
  t.match((await check(path, seal)).broken, { line: 2, problem: /^timestamp is \d+, not later than \d+ of the entry before$/ })
})

t.test('lines that are missing, moved, doubled or put in are found', async (t) => {
  const path = join(temporaryFolder(t), 'audit.jsonl')
  const lines = await sample(path)
  const other = await sample(join(temporaryFolder(t), 'other.jsonl'))
  const find = async (...changed: (string | Buffer)[]) => {
    writeFileSync(path, Buffer.concat(changed.flatMap((line) => [Buffer.from(line as string), Buffer.from('\n')])))
    return (await check(path, seal)).broken
  }
  t.match(await find(...lines.slice(0, 2), ...lines.slice(3)), { line: 3, id: 4n, problem: /id is 4, 3 comes next: entries are missing; prev_hash is/ })
  t.match(await find(...lines.slice(1)), { line: 1, id: 2n, problem: /begins at id 2.*missing/ })
  t.match(await find(lines[0], lines[2], lines[1]), { line: 2 })
  t.match(await find(lines[0], lines[1], lines[1]), { line: 3, problem: /id is 2, 3 comes next/ })
  t.match(await find(lines[0], other[1]), { line: 2, problem: /^prev_hash is/ })
  t.match(await find(lines[0], ''), { line: 2, id: undefined, problem: 'it is not JSON' })
  t.match(await find(lines[0], Buffer.from([0xff, 0xfe])), { line: 2, problem: 'it is not UTF-8' })
  t.match(await find(lines[0], 'x'.repeat(3 << 20), lines[1]), { line: 2, problem: /longer than/ })
  t.equal(await find(...lines), undefined)
  truncateSync(path, readFileSync(path).length - 1)
  t.match((await check(path, seal)).broken, { line: 6, problem: /half a line/ })
  t.match((await check(path, sealBy(undefined))).broken, { line: 1, problem: /the key is another/ })
})

t.test('whole entries cut off the end are found by the last hash only', async (t) => {
  const path = join(temporaryFolder(t), 'audit.jsonl')
  const lines = await sample(path)
  const hashes = entriesOf(path).map(({ hash }) => hash)
  const env = { KEY }
  const ask = (...more: string[]) => svc(['verify', path, '--hmac-key-env', 'KEY', ...more], env)
  t.match(await ask('--expect-last', hashes[5]), {
    code: 0,
    out: `whole: 6 entries, ids 1 to 6, last hash ${hashes[5]}\nthe expected hash is there, with 0 entries after it\n`,
  })
  t.match(await ask('--expect-last', hashes[3]), { code: 0, out: /with 2 entries after it/ })
  writeFileSync(path, `${lines.slice(0, 5).join('\n')}\n`)
  t.match(await ask(), { code: 0, out: /5 entries/ })
  t.match(await ask('--expect-last', hashes[5]), { code: 1, out: '', err: /the end of the audit log was cut off/ })
})

t.test('the command line', async (t) => {
  const folder = temporaryFolder(t)
  const path = join(folder, 'audit.jsonl')
  const lines = await sample(path)
  const env = { KEY }
  t.match(await svc(['verify', path, '--hmac-key-env', 'KEY'], env), { code: 0, err: '', out: /^whole: 6 entries, ids 1 to 6, last hash \w{64}\n$/ })
  t.match(await svc(['verify', path], env), {
    code: 1,
    err: /^broken at ".*audit\.jsonl" line 1, id 1: event_hash is .*the key is another\n0 entries before it\n$/,
  })
  t.match(await svc(['verify', path, '--hmac-key-env', 'NO_KEY'], env), { code: 2, err: /^svc: .*"NO_KEY": the environment variable is not set/ })
  t.match(await svc(['verify', join(folder, 'none')], env), { code: 2, err: /^svc: cannot read audit log: ENOENT/ })
  t.match(await svc(['verify', folder], env), { code: 2, err: /EISDIR/ })
  t.match(await svc(['verify', path, '--after', 'x']), { code: 2, err: /cannot use --after "x"/ })
  t.match(await svc(['verify', path, '--hmac-key', 'KEY']), { code: 2, err: /^svc: cannot use flag "--hmac-key": / })
  t.match(await svc(['verify', path, '--expect-last']), { code: 2, err: /^svc: cannot read the flags: .*missing/ }, 'nothing is said of the log')
  t.match(await svc([]), { code: 2, err: /write svc audit verify FILE/ })
  t.match(await svc(['verify', '--config', join(folder, 'none.toml')]), { code: 2, err: /none\.toml/ })

  writeFileSync(join(folder, 'empty'), '')
  t.match(await svc(['verify', join(folder, 'empty')]), { code: 0, out: 'whole: 0 entries\n' })

  t.test('without a file it is that of the config', async (t) => {
    const config = join(folder, 'svc.toml')
    writeFileSync(config, `plugins = ["audit"]\n[audit]\npath = "${path}"\nhmac_key_env = "KEY"\n`)
    t.match(await svc(['verify', '--config', config], env), { code: 0, out: /6 entries/ })
    writeFileSync(config, 'plugins = []\n')
    t.match(await svc(['verify', '--config', config], env), { code: 2, err: /does not select plugin "audit"/ })
  })

  t.test('a chain through several files', async (t) => {
    const dependencies = [join(folder, '1.jsonl'), join(folder, '2.jsonl')]
    writeFileSync(dependencies[0], `${lines.slice(0, 2).join('\n')}\n`)
    writeFileSync(dependencies[1], `${lines.slice(2).join('\n')}\n`)
    const ask = (...args: string[]) => svc(['verify', ...args, '--hmac-key-env', 'KEY'], env)
    t.match(await ask(...dependencies), { code: 0, out: /6 entries/ })
    t.match(await ask(...[...dependencies].reverse()), { code: 1, err: /2\.jsonl" line 1, id 3: it begins at id 3/ })
    const { hash } = entriesOf(dependencies[0])[1]
    t.match(await ask(dependencies[1], '--after', hash), { code: 0, out: /4 entries, ids 3 to 6/ })
    t.match(await ask(dependencies[1], '--after', '0'.repeat(64)), { code: 1, err: /which it is to follow/ })
    copyFileSync(dependencies[1], dependencies[0])
    t.match(await ask(...dependencies), { code: 1 })
  })
})
