import { execFileSync } from 'node:child_process'
import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate, setTimeout } from 'node:timers/promises'
import type { AuditRecord } from 'svcdb'
import t from 'tap'
import { eventually } from '../../test/support/until.ts'
import { PolicyEngine } from './engine.ts'
import { readPolicies } from './policy-files.ts'
import { auditLogPlugin, type PolicyNode, policyFolder, routesPlugin, startPolicies } from './testing.ts'

const DATA = routesPlugin([
  { method: 'GET', url: '/data' },
  { method: 'POST', url: '/data' },
])
const PERMIT = 'permit(principal, action, resource);'
const ANN = 'permit(principal == Svc::User::"ann", action, resource);'
const HOURLY = { hot_reload_interval_secs: 3600 }

const hangUp = (): void => void process.kill(process.pid, 'SIGHUP')
const status = async ({ as }: PolicyNode, principal: string): Promise<number> => (await as({ principal }, { url: '/data' })).status
const applied = ({ metric }: PolicyNode, result = 'applied'): Promise<number> => metric(`svc_policy_reloads_total{result="${result}"}`)
/** In one step, as whoever deploys policies should. */
function put(folder: string, name: string, text: string): void {
  writeFileSync(join(folder, `.${name}`), text)
  renameSync(join(folder, `.${name}`), join(folder, name))
}

t.test('SIGHUP reloads at once, what is invalid is refused, and each is in the audit log', async (t) => {
  const records: AuditRecord[] = []
  const started = await startPolicies(t, ANN, { plugins: [DATA, auditLogPlugin(records)], section: HOURLY })
  const { folder, lines } = started
  t.same([await status(started, 'ann'), await status(started, 'bob')], [200, 403])
  t.match(records, [{ action: 'policy_load', resource: folder, decision: 'allow', metadata: { policies: '1', files: '1', sha256: /^[0-9a-f]{64}$/ } }])

  put(folder, 'more.cedar', 'permit(principal == Svc::User::"bob", action, resource);')
  hangUp()
  await eventually(async () => (await applied(started)) === 2)
  t.same([await status(started, 'ann'), await status(started, 'bob')], [200, 200])
  t.match(records[1], { decision: 'allow', metadata: { policies: '2', files: '2' } })

  put(folder, 'more.cedar', 'permit(principal == Svc::Usr::"bob", action, resource);')
  hangUp()
  await eventually(async () => (await applied(started, 'refused')) === 1)
  t.same([await status(started, 'ann'), await status(started, 'bob'), await status(started, 'eve')], [200, 200, 403], 'the old one stays')
  t.equal(await started.metric('svc_policies_loaded'), 2)
  t.match(records[2], { action: 'policy_load', decision: 'deny', metadata: { reason: /more\.cedar:1:21: .*did you mean `Svc::User`\?/ } })
  t.ok(lines.some((line) => JSON.parse(line).level === 'error' && line.includes('the ones before stay')))

  rmSync(folder, { recursive: true })
  hangUp()
  await eventually(async () => (await applied(started, 'refused')) === 2)
  t.match(records[3], { decision: 'deny', metadata: { reason: /ENOENT/ } })
  t.equal(await status(started, 'bob'), 200)

  mkdirSync(folder)
  put(folder, 'all.cedar', 'forbid(principal, action, resource);')
  hangUp()
  await eventually(async () => (await applied(started)) === 3)
  t.equal(await status(started, 'ann'), 403)
  const before = process.listenerCount('SIGHUP')
  await started.node.stop()
  t.equal(process.listenerCount('SIGHUP'), before - 1, 'nothing listens once it is stopped')
})

t.test('changes are found by themselves, and tried once', async (t) => {
  const started = await startPolicies(t, ANN, { plugins: [DATA], section: { hot_reload_interval_secs: 1 } })
  put(started.folder, 'all.cedar', ANN.replace('ann', 'bob')) // of the same size
  await eventually(async () => (await status(started, 'bob')) === 200)
  t.equal(await status(started, 'ann'), 403)
  put(started.folder, 'bad.cedar', 'permit(')
  await eventually(async () => (await applied(started, 'refused')) === 1)
  put(started.folder, 'worse.cedar', 'permit((')
  await eventually(async () => (await applied(started, 'refused')) === 2)
  await setTimeout(2500)
  t.equal(await applied(started, 'refused'), 2, 'what was refused is not, until it changes')
  t.equal(await applied(started), 2)
})

t.test('files that cannot be read are told once for each reason, and again when somebody asks', async (t) => {
  const started = await startPolicies(t, ANN, { plugins: [DATA], section: { hot_reload_interval_secs: 1 } })
  const refused = (count: number) => eventually(async () => (await applied(started, 'refused')) === count)
  put(started.folder, 'text.cedar', 'permit(')
  await refused(1)
  hangUp()
  await refused(2)
  mkdirSync(join(started.folder, 'one.cedar'))
  await refused(3)
  await setTimeout(2500)
  t.equal(await applied(started, 'refused'), 3)
  mkdirSync(join(started.folder, 'another.cedar'))
  await refused(4)
  hangUp()
  await refused(5)
  t.equal(await status(started, 'ann'), 200, 'what was loaded stays')
})

t.test('without hot_reload neither the files nor SIGHUP are looked at', async (t) => {
  const before = process.listenerCount('SIGHUP')
  await startPolicies(t, ANN, { section: { hot_reload: false } })
  t.equal(process.listenerCount('SIGHUP'), before)
})

t.test('what cannot be recorded does not happen', async (t) => {
  let full = false
  const started = await startPolicies(t, ANN, { plugins: [DATA, auditLogPlugin([], () => full)], section: HOURLY })
  full = true
  put(started.folder, 'all.cedar', PERMIT)
  hangUp()
  await eventually(async () => (await applied(started, 'failed')) === 1)
  t.equal(await status(started, 'bob'), 403)
  full = false
  hangUp()
  await eventually(async () => (await status(started, 'bob')) === 200)
  await t.rejects(startPolicies(t, ANN, { plugins: [auditLogPlugin([], () => true)] }), /the audit log is full/, 'nor does the start')
})

t.test('a set that cannot be put to work is in the audit log as one that failed', async (t) => {
  const records: AuditRecord[] = []
  const started = await startPolicies(t, ANN, { plugins: [DATA, auditLogPlugin(records)], section: HOURLY })
  // What passes the check is fine here: only the engine itself can fail.
  const activate = t.intercept(PolicyEngine.prototype, 'activate', {
    value: () => {
      throw new Error('out of memory')
    },
  })
  put(started.folder, 'all.cedar', PERMIT)
  hangUp()
  await eventually(async () => (await applied(started, 'failed')) === 1)
  activate.restore()
  const { metadata, ...load } = records[1]
  t.match(records.slice(1), [
    { action: 'policy_load', decision: 'allow' },
    { ...load, decision: 'deny', metadata: { ...metadata, failed: 'INTERNAL_ERROR' } },
  ])
  t.same([await status(started, 'ann'), await status(started, 'bob')], [200, 403], 'the old one stays')

  hangUp()
  await eventually(async () => (await status(started, 'bob')) === 200)
  t.match(records.slice(3), [{ action: 'policy_load', decision: 'allow' }], 'it is tried again')
})

t.test('no call sees a part of a set', async (t) => {
  // Each set permits all of one half of the users, in many files, and nothing else.
  const users = Array.from({ length: 40 }, (_, i) => `user${i}`)
  const setFor = (half: number) => users.filter((_, i) => i % 2 === half).map((name) => `permit(principal == Svc::User::"${name}", action, resource);`)
  const started = await startPolicies(t, setFor(0).join('\n'), { plugins: [DATA], section: HOURLY })
  let over = false
  let calls = 0
  const wrong: string[] = []
  const ask = async () => {
    while (!over) {
      // Asked in one go: nothing can come between, so that all are answered by one set.
      const answers = await Promise.all(users.slice(0, 8).map((principal) => started.as({ principal, roles: [String(calls % 97)] }, { url: '/data' })))
      const seen = answers.map(({ status }) => (status === 200 ? 'y' : status === 403 ? 'n' : '?')).join('')
      calls++
      // Calls that arrive together may be admitted one by one, before and after the set changes: first one, then the other.
      if (!/^(yn|ny){4}$/.test(seen) && !splitOnce(seen)) wrong.push(seen)
      await setImmediate()
    }
  }
  const asking = [ask(), ask(), ask()]
  for (let i = 1; i <= 6; i++) {
    put(started.folder, 'all.cedar', i === 4 ? 'permit(' : setFor(i % 2).join('\n'))
    const [good, bad] = [await applied(started), (await applied(started, 'refused')) || 0]
    hangUp()
    await eventually(async () => (await applied(started)) > good || (await applied(started, 'refused')) > bad)
  }
  over = true
  await Promise.all(asking)
  t.same(wrong, [])
  t.ok(calls > 3, `${calls} rounds of calls`)
  t.equal(await started.metric('svc_policy_decisions_total{outcome="error"}').then((n) => n || 0), 0)
})

/** A first part by one set, the rest by the other. */
function splitOnce(seen: string): boolean {
  for (const [one, other] of [
    ['yn', 'ny'],
    ['ny', 'yn'],
  ]) {
    for (let at = 0; at <= seen.length; at++) {
      if (seen === one.repeat(4).slice(0, at) + other.repeat(4).slice(at)) return true
    }
  }
  return false
}

t.test('reading waits for files that are being written', async (t) => {
  const folder = policyFolder(t, { 'a.cedar': 'x' })
  const source = { path: folder, kind: 'folder' as const, maxBytes: 10_000 }
  let turns = 0
  const writing = setInterval(() => {
    turns++
    writeFileSync(join(folder, 'a.cedar'), turns < 5 ? `${turns}` : 'done')
    if (turns >= 5) clearInterval(writing)
  }, 5)
  t.teardown(() => clearInterval(writing))
  await eventually(() => turns > 0)
  const { files } = await readPolicies(source)
  t.match(files, [{ name: 'a.cedar', text: /^\w+$/ }])
  await eventually(() => turns >= 5)
  t.same((await readPolicies(source)).files, [{ name: 'a.cedar', text: 'done' }])
})

t.test('what cannot be read is named', async (t) => {
  const folder = policyFolder(t, {
    'b.cedar': 'permit(principal, action, resource);',
    'a.cedar': '\ufeff// first',
    '.hidden.cedar': 'nonsense',
    'c.txt': 'nonsense',
  })
  const read = (maxBytes = 10_000) => readPolicies({ path: folder, kind: 'folder', maxBytes })
  t.same(
    (await read()).files.map(({ name, text }) => `${name} ${text.slice(0, 8)}`),
    ['a.cedar // first', 'b.cedar permit(p'],
  )
  const { digest } = await read()
  t.equal((await read()).digest, digest)
  await t.rejects(read(40), /cannot read policies ".*b\.cedar": the policies are larger than 40 bytes; .*max_policy_bytes/)
  writeFileSync(join(folder, 'd.cedar'), Buffer.from([0x70, 0xff, 0xfe]))
  await t.rejects(read(), /d\.cedar": it is not UTF-8/)
  rmSync(join(folder, 'd.cedar'))
  mkdirSync(join(folder, 'e.cedar'))
  await t.rejects(read(), /e\.cedar": it is not a file/)
  rmSync(join(folder, 'e.cedar'), { recursive: true })
  execFileSync('mkfifo', [join(folder, 'f.cedar')])
  await t.rejects(read(), /f\.cedar": it is not a file/, 'a pipe is not waited for')
})
