import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { type CorrelationKey, defineSkill, type Json } from 'svcdb/agents'
import { Type } from 'svcdb/lib/schema'
import { run as runCli } from 'svcdb/testkit'
import t from 'tap'
import { startApi, tokenOf } from './testing.ts'

const late = defineSkill({
  capability: 'late',
  summary: 'Of a test',
  input: Type.Any(),
  output: Type.Any(),
  invoke: (context): Promise<Json> => context.deadline('answer', { unit: 'minutes', n: 0 }).then(() => 'done'),
})

t.test('svc plane acknowledges obligations, holds cases, drills the store and holds the log against it', async (t) => {
  const { node, as, plane, agents } = await startApi(t, [late], { storage: 'embedded' })
  const folder = await mkdtemp('/tmp/svc-plane-')
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  await writeFile(`${folder}/svc.toml`, `plugins = ["agent_plane"]\n[agent_plane]\n[database]\ndata_dir = ${JSON.stringify(node.dataDir)}\n`)
  const svc = async (name: string, ...argv: string[]) => {
    let [out, err] = ['', '']
    const io = { env: { SVC_TOKEN: tokenOf(name) }, out: (text: string) => void (out += text), err: (text: string) => void (err += text) }
    const code = await runCli(['plane', ...argv, '--config', `${folder}/svc.toml`, '--url', node.url], io as never)
    return { code, out, err }
  }
  const correlation: CorrelationKey[] = [{ namespace: 'order', value: '1' }]
  const { run } = await agents.run({ capability: 'late', input: null, actor: 'test', case: { kind: 'support.order', correlation } })
  await agents.settled(run)
  const id = (await plane().runs.view(run)).case as string
  for (const end = Date.now() + 60_000; (await as('rita').get('/obligations')).body.obligations.length === 0 && Date.now() < end; )
    await new Promise((resolve) => setTimeout(resolve, 20))
  t.match(await svc('rita', 'acknowledge', id, 'answer'), { code: 4, err: /may not do "api:obligation.acknowledge"/ })
  const first = await svc('ann', 'acknowledge', id, 'answer', '--note', 'called them')
  t.match({ ...first, out: JSON.parse(first.out) }, { code: 0, err: '', out: { recorded: true, acknowledged_by: { actor: 'ann', basis: 'authenticated' } } })
  t.match(JSON.parse((await svc('bob', 'acknowledge', id, 'answer')).out), { recorded: false })
  t.match(await svc('ann', 'acknowledge', id, 'none'), { code: 1, err: /there is none/ })
  t.match(await svc('ann', 'acknowledge', id), { code: 2 })
  t.match(await svc('ann', 'hold', id), { code: 2, err: /cannot hold without a reason/ })
  t.match(JSON.parse((await svc('ann', 'hold', id, '--reason', 'a suit')).out), { placed: true })
  t.match(JSON.parse((await svc('rita', 'hold')).out), { holds: [{ case: id }] })
  t.match(JSON.parse((await svc('bob', 'hold', id, '--release')).out), { lifted: true })
  t.match(JSON.parse((await svc('rita', 'hold', '--released')).out), { released: [{ case: id, by: 'bob' }] })
  t.match(await svc('ann', 'hold', 'case_01ARZ3NDEKTSV4RRFFQ69G5FAV', '--release'), { code: 1 })
  for (const end = Date.now() + 60_000; Date.now() < end && !(await svc('ann', 'verify')).out.includes(' 0 waiting'); );
  t.match(await svc('ann', 'verify'), {
    code: 0,
    out: /^3 of 3 runs whole, \d+ records\nlog svc\/agent_plane\/default: 3 entries, 0 waiting, root [0-9a-f]{64}\n$/,
  })
  t.match(await svc('ann', 'verify', run), { code: 0, out: /it is in the log\n$/ })
  const drilled = await svc('ann', 'drill')
  t.match({ ...drilled, out: JSON.parse(drilled.out) }, { code: 0, err: '', out: { drilled: true, cases: 1, findings: 0, log_size: 3, sound: true } })
  await node.storage.state('agent_plane').transaction((tx) => tx.delete(`record/${run}/000000000002`))
  t.match(await svc('ann', 'drill'), { code: 1, out: /"sound":false/, err: new RegExp(`finding: case "${id}": cannot use the journal`) })
  await node.storage.state('agent_plane').transaction((tx) => tx.delete('log/leaf/000000000001'))
  t.match(await svc('ann', 'verify'), { code: 1, err: /do not come to its root/ })
})
