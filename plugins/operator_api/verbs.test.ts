import { defineSkill, EffectError } from 'svcdb/agents'
import { Type } from 'svcdb/lib/schema'
import { run as runCli } from 'svcdb/testkit'
import t from 'tap'
import { DOCUMENT, fileOf, startApi, tokenOf } from './testing.ts'

async function svc(env: Record<string, string>, ...argv: string[]) {
  let [out, err] = ['', '']
  const code = await runCli(['plane', ...argv], { env, out: (text: string) => void (out += text), err: (text: string) => void (err += text) } as never)
  return { code, out, err }
}

t.test('svc plane openapi prints the document', async (t) => {
  const { code, out } = await svc({}, 'openapi')
  t.equal(code, 0)
  t.same(JSON.parse(out), DOCUMENT)
  t.match(await svc({}, 'nonsense'), { code: 2 }, 'other verbs are those of the plane')
  t.match(await svc({}, 'openapi', 'api.json'), { code: 2, out: '', err: /cannot use argument "api\.json": plane openapi takes flags only/ })
})

t.test('what --config alone does not say is named', async (t) => {
  const cancel = ['cancel', 'run_01ARZ3NDEKTSV4RRFFQ69G5FAV', '--reason', 'x']
  const without = fileOf(t, 'svc.toml', 'plugins = ["agent_plane"]\n')
  t.match(await svc({}, ...cancel, '--config', without, '--url', 'http://127.0.0.1:1'), { code: 4, err: /see --url; of a node that is stopped, .* --actor/ })
  t.match(await svc({}, ...cancel, '--config', without, '--actor', 'ann'), { code: 4, err: /has no section \[agent_plane\]/ })
})

t.test('it does so whatever the config selects', async (t) => {
  for (const plugins of [[], ['agent_plane'], ['operator_api'], ['cedar', 'agent_plane', 'operator_api']]) {
    const file = fileOf(t, 'svc.toml', `plugins = ${JSON.stringify(plugins)}\n`)
    const { code, out } = await svc({}, 'openapi', '--config', file)
    t.equal(code, 0, plugins.join())
    t.same(JSON.parse(out), DOCUMENT)
    t.match(await svc({}, 'nonsense', '--config', file), { code: 2, err: /cannot run "plane nonsense"/ }, 'and other verbs are those of the plane')
  }
})

t.test('runs are shown, cancelled and decided about from the command line', async (t) => {
  const nap = defineSkill({
    capability: 'nap',
    summary: 'Of a test',
    input: Type.Any(),
    output: Type.Any(),
    invoke: (context) => context.sleep(1_000_000) as never,
  })
  const pay = defineSkill({
    capability: 'pay',
    summary: 'Of a test',
    input: Type.Any(),
    output: Type.Any(),
    invoke: (context) =>
      context.effect({ kind: 'pay', args: null, mutates: true }, async () => {
        throw new EffectError('no answer', { disposition: 'in_doubt' })
      }),
  })
  const { node, run, as, agents } = await startApi(t, [nap, pay])
  const plane = (name: string, ...argv: string[]) => svc({ SVC_TOKEN: tokenOf(name) }, ...argv, '--url', node.url)
  const napping = await run('nap', null)
  const seen = await plane('rita', 'waiting')
  t.match([seen.code, JSON.parse(seen.out)], [0, { runs: [{ run: napping }], truncated: false }])
  t.match(await plane('rita', 'cancel', napping, '--reason', 'x'), { code: 4, err: /may not do "api:run.cancel"/ })
  t.match(await plane('ann', 'cancel', napping), { code: 2, err: /reason/ })
  t.match(await plane('ann', 'cancel', napping, '--reason', 'x'), { code: 0, out: /"requested_by":"ann"/ })
  await agents.settled(napping)
  t.match(await plane('ann', 'cancel', napping, '--reason', 'x'), { code: 1, err: /it is cancelled/ })
  const doubted = await run('pay', null)
  const { effect } = (await as('ann').get(`/runs/${doubted}`)).body.undecided[0]
  t.match(await plane('ann', 'reconcile', doubted, effect, '--output', '{'), { code: 2, err: /not JSON/ })
  t.match(await plane('ann', 'reconcile', doubted, effect, '--output', '{"paid":1}', '--note', 'seen'), { code: 0 })
  t.match(await plane('ann', 'quarantine', doubted, 'leave'), { code: 2 })
  t.match(await plane('ann', 'quarantine', doubted, 'reopen', '--reason', 'settled'), { code: 0, out: /"status":"succeeded"/ })
  t.match(await plane('ann', 'quarantine', doubted, 'abandon', '--reason', 'late'), { code: 1 })
})
