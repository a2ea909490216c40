/** A sweep looks at all tenants, also where that of one fails. */
import { AGENT_PLANES, type AgentPlanes, type OperatedPlane } from 'svcdb/agents'
import t from 'tap'
import { skill } from './testing/control.ts'
import { handOut, start } from './testing/node.ts'

t.test('runs of a tenant go on though the sweep of another one fails', async (t) => {
  const handed = handOut<AgentPlanes>(AGENT_PLANES)
  const nap = skill('nap', (context) => context.sleep(300).then(() => null))
  const { node } = await start(t, [nap], { plugins: [handed.plugin], config: { agent_plane: { tenants: ['acme'], sweep_interval_secs: 0.1 } } })
  // What no version has written: an event that is kept since long, and is none.
  await node.storage.state('agent_plane').transaction((tx) => tx.put('buffer/0000000000000001/x', {}))
  const { agents } = handed.service().find('acme') as OperatedPlane
  const { run } = await agents.run({ capability: 'nap', input: null, actor: 'test' })
  t.equal(await agents.settled(run), 'suspended')
  while ((await agents.settled(run)) === 'suspended') await new Promise((resolve) => setTimeout(resolve, 20))
  t.equal(await agents.settled(run), 'succeeded')
})
