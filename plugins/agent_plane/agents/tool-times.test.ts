/** What becomes of the time of a tool's call when the call is over before. */
import { type AgentManifest, defineAgent, defineTool } from 'svcdb/agents'
import { Type } from 'svcdb/lib/schema'
import t from 'tap'
import { start } from '../testing/node.ts'

const TIMEOUT_MS = 20

t.test('a tool that throws before it gives a promise has failed, and nothing else comes of it when its time is over', async (t) => {
  const unhandled: unknown[] = []
  const note = (error: unknown) => void unhandled.push(error)
  process.on('unhandledRejection', note)
  t.teardown(() => process.off('unhandledRejection', note))
  const manifest: AgentManifest = {
    apiVersion: 'svc/v1alpha1',
    kind: 'Agent',
    metadata: { name: 'caller', version: '1' },
    spec: { capabilities: { provides: ['caller.do'] }, budgets: {} },
  }
  // Not async, as a tool is that only passes on what a service promises.
  const tool = defineTool({
    ref: 'tool://test/refuses',
    description: 'Needs a variable that is not set',
    arguments: Type.Object({}),
    mutates: false,
    timeoutMs: TIMEOUT_MS,
    call: (_, { services }) => services.http({ method: 'GET', url: services.env('SVC_TEST_NOT_SET') }),
  })
  const { run } = await start(t, [], {
    agents: [
      defineAgent({
        manifest,
        tools: [tool],
        skills: (skill) => [
          skill({
            capability: 'caller.do',
            summary: 'Of a test',
            input: Type.Any(),
            output: Type.Any(),
            invoke: (ctx) => ctx.callTool('tool://test/refuses', {}),
          }),
        ],
      }),
    ],
  })
  t.match(await run('caller.do', null), { status: 'failed', reason: /the variable SVC_TEST_NOT_SET is not set/ })
  await new Promise((resolve) => setTimeout(resolve, 5 * TIMEOUT_MS))
  t.same(unhandled, [])
})
