import { AGENT_PLANES, type AgentPlanes, defineAgent, type Json, type OperatedPlane, promqlTool, sqlTool, writeTool } from 'svcdb/agents'
import { Type } from 'svcdb/lib/schema'
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
