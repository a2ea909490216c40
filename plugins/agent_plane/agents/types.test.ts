/**
 * Types of agents from end to end. `npm run check` holds each line that is marked to an error: what is wrong does not compile, and what is right is run. That what
 * has no types is refused as well when it is run, other tests say.
 */
import { type AgentManifest, defineAgent, defineSkill, defineTool, httpTool, type Json, sqlTool } from 'svcdb/agents'
import { AgentRunner } from 'svcdb/agents/testkit'
import { type Static, Type } from 'svcdb/lib/schema'
import t from 'tap'

type Equal<A, B> = (<X>() => X extends A ? 1 : 2) extends <X>() => X extends B ? 1 : 2 ? true : false
/** Compiles for `true` alone. */
const holds = <_ extends true>(): void => {}

const closed = { additionalProperties: false }
const manifest: AgentManifest = {
  apiVersion: 'svc/v1alpha1',
  kind: 'Agent',
  metadata: { name: 'types', version: '1' },
  spec: { capabilities: { provides: ['types.do'] }, budgets: {} },
}
const Level = Type.Enum(['low', 'high'])
const measure = defineTool({
  ref: 'tool://site/measure',
  description: 'Of a test',
  arguments: Type.Object({ host: Type.String(), times: Type.Optional(Type.Integer()) }, closed),
  output: Type.Object({ level: Level, values: Type.Array(Type.Number()) }),
  mutates: false,
  async call({ host, times }, { attempt, effectKey }) {
    holds<Equal<typeof host, string>>()
    holds<Equal<typeof times, number | undefined>>()
    holds<Equal<typeof attempt, number>>()
    return { level: 'high' as const, values: [host.length, times ?? 0, effectKey.length] }
  },
})
const order = httpTool({
  ref: 'tool://shop/order',
  description: 'Of a test',
  arguments: Type.Object({ id: Type.String() }, closed),
  mutates: true,
  idempotent: true,
  method: 'POST',
  url: '$SHOP_URL/orders/{id}',
  body: Type.Object({ receipt: Type.String() }),
})
const Input = Type.Object({ host: Type.String(), count: Type.Optional(Type.Integer()) })
const Output = Type.Object({ level: Level, sum: Type.Number() })

const agent = defineAgent({
  manifest,
  tools: [measure, order, sqlTool()],
  skills: (skill) => [
    skill({
      capability: 'types.do',
      summary: 'Of a test',
      input: Input,
      output: Output,
      async invoke(ctx, input) {
        holds<Equal<typeof input, Static<typeof Input>>>()
        const measured = await ctx.callTool('tool://site/measure', { host: input.host, ...(input.count === undefined ? {} : { times: input.count }) })
        holds<Equal<typeof measured.level, 'low' | 'high'>>()
        holds<Equal<typeof measured.values, number[]>>()
        const ordered = await ctx.callTool('tool://shop/order', { id: '1' }, { summary: 'Order it?', evidence: ['it is low'] })
        holds<Equal<typeof ordered.body.receipt, string>>()
        const { rows, truncated } = await ctx.callTool('tool://svc/sql', { query: 'SELECT ?', parameters: [input.host, 1, null] })
        holds<Equal<typeof rows, Json[][]>>()
        holds<Equal<typeof truncated, boolean>>()
        const given = await ctx.effect<number>({ kind: 'x', args: null, mutates: false }, async () => 7)
        holds<Equal<typeof given, number>>()
        return { level: measured.level, sum: measured.values.reduce((sum, value) => sum + value, given) }
      },
      async compensate(ctx, { host }, output) {
        holds<Equal<typeof output, Static<typeof Output> | undefined>>()
        await ctx.callTool('tool://site/measure', { host })
      },
    }),
  ],
})

/** Never called: it is here to be compiled. */
function wrong(): unknown[] {
  const one = { capability: 'types.do', summary: 'Of a test', input: Input, output: Output }
  return [
    defineAgent({
      manifest,
      tools: [measure, order],
      skills: (skill) => [
        skill({
          ...one,
          async invoke(ctx, input) {
            // @ts-expect-error the input has no such member
            input.nothing
            // @ts-expect-error it may be absent
            input.count.toFixed()
            // @ts-expect-error the agent has no such tool
            await ctx.callTool('tool://site/other', {})
            // @ts-expect-error an argument is missing
            await ctx.callTool('tool://site/measure', {})
            // @ts-expect-error an argument is of another type
            await ctx.callTool('tool://site/measure', { host: 1 })
            // @ts-expect-error the arguments of another tool
            await ctx.callTool('tool://shop/order', { host: 'a' })
            const { level, values } = await ctx.callTool('tool://site/measure', { host: 'a' })
            // @ts-expect-error never so
            level === 'middle'
            // @ts-expect-error they are numbers
            const texts: string[] = values
            // @ts-expect-error the body has no such member
            ;(await ctx.callTool('tool://shop/order', { id: '1' })).body.price
            // @ts-expect-error a proposal has no such member
            await ctx.callTool('tool://shop/order', { id: '1' }, { because: texts })
            // @ts-expect-error the input of a run is JSON
            await ctx.commission({ capability: 'types.do', input: new Map(), withinMs: 1 })
            return { level, sum: 1 }
          },
        }),
        // @ts-expect-error a member of the output is missing
        skill({ ...one, invoke: async () => ({ sum: 1 }) }),
        // @ts-expect-error a member of the output is of another type
        skill({ ...one, invoke: async () => ({ level: 'high' as const, sum: '1' }) }),
        // @ts-expect-error the output is not one of those
        skill({ ...one, invoke: async () => ({ level: 'middle' as const, sum: 1 }) }),
        // @ts-expect-error without a schema of its output
        skill({ capability: 'types.do', summary: 'Of a test', input: Input, invoke: async () => null }),
      ],
    }),
    defineAgent({
      manifest,
      skills: (skill) => [
        skill({
          ...one,
          async invoke(ctx) {
            // @ts-expect-error an agent without tools calls none
            await ctx.callTool('tool://site/measure', { host: 'a' })
            return { level: 'low' as const, sum: 1 }
          },
        }),
      ],
    }),
    // @ts-expect-error what is no tool
    defineAgent({ manifest, tools: [{ ref: 'tool://site/measure' }] }),
    // @ts-expect-error the manifest has no budgets
    defineAgent({ manifest: { ...manifest, spec: { capabilities: { provides: ['types.do'] } } } }),
    defineTool({
      ...measure,
      // @ts-expect-error there is no such argument to be protected
      protected_fields: ['to'],
    }),
    defineTool({
      ref: 'tool://site/other',
      description: 'Of a test',
      arguments: Type.Object({}),
      output: Type.Integer(),
      mutates: false,
      // @ts-expect-error it gives another type than it says
      call: async () => 'one',
    }),
    defineSkill({
      ...one,
      async invoke(ctx, { host }) {
        // @ts-expect-error a skill of no agent has no tools
        await ctx.callTool('tool://site/measure', { host })
        return { level: 'low' as const, sum: 1 }
      },
    }),
    // @ts-expect-error the input is no number
    defineSkill({ ...one, invoke: async (_, input: number) => ({ level: 'low' as const, sum: input }) }),
  ]
}

t.test('what the types say is what a run gets', async (t) => {
  const asked: unknown[] = []
  const runner = await AgentRunner.create({
    agents: [agent],
    services: {
      env: (name) => `https://${name.toLowerCase()}/`,
      async http({ url, body }) {
        asked.push({ url, body })
        return { status: 200, headers: {}, body: '{"receipt":"r-1"}' }
      },
      async sql(query, parameters) {
        asked.push({ query, parameters })
        return { columns: ['a'], rows: [['b']], truncated: false }
      },
    },
  })
  t.match(await runner.run('types.do', { host: 'abc', count: 2 }), { status: 'succeeded', output: { level: 'high', sum: 3 + 2 + 64 + 7 } })
  t.same(asked, [
    { url: 'https://shop_url/orders/1', body: '{}' },
    { query: 'SELECT ?', parameters: ['abc', 1, null] },
  ])
  await t.rejects(runner.run('types.do', { host: 1 }), { code: 'BAD_REQUEST' })
  t.type(wrong, 'function')
})
