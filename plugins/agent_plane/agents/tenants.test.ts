import { AGENT_PLANES, type AgentPlanes, defineAgent, defineSkill, type Json, type OperatedPlane, promqlTool, sqlTool, writeTool } from 'svcdb/agents'
import { Type } from 'svcdb/lib/schema'
import { loadEngine } from 'svcdb/testkit'
import t from 'tap'
import { handOut, start } from '../testing/node.ts'

t.test('an agent of one tenant reads and writes nothing of another', async (t) => {
  const agent = defineAgent({
    manifest: {
      apiVersion: 'svc/v1alpha1',
      kind: 'Agent',
      metadata: { name: 'ops', version: '1' },
      spec: { capabilities: { provides: ['ops.do'] }, budgets: {} },
    },
    tools: [sqlTool(), promqlTool(), writeTool()],
    skills: (skill) => [
      skill({
        capability: 'ops.do',
        summary: 'Of a test',
        input: Type.Object({ writes: Type.Optional(Type.Number()), sql: Type.Optional(Type.String()) }),
        output: Type.Any(),
        compensation: 'unnecessary',
        async invoke(ctx, { writes, sql = 'SELECT used FROM disk' }) {
          const time = await ctx.now()
          const before = await ctx.recall('last')
          if (writes !== undefined) {
            await ctx.remember('last', writes)
            await ctx.callTool('tool://svc/write', { points: [{ measurement: 'disk', fields: { used: writes }, time }] })
          }
          const { rows } = await ctx.callTool('tool://svc/sql', { query: sql })
          const { result } = (await ctx.callTool('tool://svc/promql', { query: 'disk_used or disk' })) as { result: { value: [number, string] }[] }
          return { before, rows, series: result.map(({ value }) => value[1]) }
        },
      }),
    ],
  })
  const handed = handOut<AgentPlanes>(AGENT_PLANES)
  await start(t, [], {
    agents: [agent],
    storage: 'embedded',
    plugins: ['promql', handed.plugin],
    config: { server: { multi_tenancy: true }, agent_plane: { tenants: ['acme', 'umbrella'] } },
  })
  const as = async (tenant: string, input: Json) => {
    const { agents } = handed.service().find(tenant) as OperatedPlane
    const { run } = await agents.run({ capability: 'ops.do', input, actor: 'test' })
    return { status: await agents.settled(run), reason: (await agents.standing(run)).reason, output: (await agents.replay(run)).output }
  }
  t.match(await as('acme', { writes: 1 }), { status: 'succeeded', output: { before: null, rows: [[1]], series: ['1'] } })
  t.match(await as('umbrella', { writes: 2 }), { status: 'succeeded', output: { before: null, rows: [[2]], series: ['2'] } }, 'it finds its own alone')
  t.match(await as('acme', {}), { status: 'succeeded', output: { before: 1, rows: [[1]], series: ['1'] } }, 'and so does the other one still')
  for (const sql of ['SELECT * FROM umbrella.disk', 'SELECT * FROM "umbrella"."main"."disk"']) t.match(await as('acme', { sql }), { status: 'failed' }, sql)
  t.match(await as('default', {}), { status: 'failed' }, 'nor is there anything for whoever has no tenant')
})

t.test('runs of a tenant that the config has no more are kept, told of at the start, and go on when it is named again', async (t) => {
  const storage = (await loadEngine('memory', '.')).createEngine({ config: {}, now: Date.now } as never)
  const wait = defineSkill({
    capability: 'wait',
    summary: 'Of a test',
    input: Type.Any(),
    output: Type.Any(),
    invoke: async (ctx) => (await ctx.awaitEvent({ kind: 'go', correlation: [], withinMs: 60_000 })).payload,
  })
  const startWith = async (tenants: string[]) => {
    const said: string[] = []
    const planes = handOut<AgentPlanes>(AGENT_PLANES)
    const config = { agent_plane: { sweep_interval_secs: 0.1, tenants } }
    const { node, run } = await start(t, [wait], { config, storage, plugins: [planes.plugin], log: (line) => void said.push(line) })
    return { node, run, planes, told: () => said.filter((line) => line.includes('agent_plane.tenants does not name')).map((line) => JSON.parse(line)) }
  }
  const first = await startWith(['a', 'a-b', 'done'])
  const begun: Record<string, string> = {}
  for (const tenant of ['a', 'a-b', 'done']) {
    const answer = await first.node.inject({ method: 'POST', url: `/api/v1/admin/agents/runs?tenant=${tenant}`, payload: { capability: 'wait', input: null } })
    begun[tenant] = answer.json().run
    const { runs, events } = first.planes.service().find(tenant) as OperatedPlane
    while ((await runs.view(begun[tenant])).status !== 'suspended') await new Promise((resolve) => setTimeout(resolve, 10))
    if (tenant !== 'done') continue
    await events?.deliver({ id: '1', source: 's', kind: 'go', correlation: [], payload: 1 })
    while ((await runs.view(begun[tenant])).status !== 'succeeded') await new Promise((resolve) => setTimeout(resolve, 10))
  }
  t.same(first.told(), [])
  t.same(await first.node.stop(), [])
  const without = await startWith(['a-b'])
  t.match(without.told(), [{ level: 'warn', tenant: 'a', running: 0, suspended: 1 }])
  t.same(await without.node.stop(), [])
  const again = await startWith(['a', 'a-b', 'done'])
  t.same(again.told(), [])
  const { runs, events } = again.planes.service().find('a') as OperatedPlane
  await events?.deliver({ id: '1', source: 's', kind: 'go', correlation: [], payload: 1 })
  while ((await runs.view(begun.a)).status !== 'succeeded') await new Promise((resolve) => setTimeout(resolve, 10))
})
