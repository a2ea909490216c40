/** Agents of the busy node: runs that are done, that fail, that wait for an event, and pushes to a receiver that is not there. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { TestNode } from 'svcdb/testkit'

const RUNS = '/api/v1/admin/agents/runs'
const WAIT_MS = 20_000

const AGENT = `import { defineAgent } from ${JSON.stringify(import.meta.resolve('svcdb/agents'))}
const provides = ['busy.work', 'busy.wait']
const manifest = { apiVersion: 'svc/v1alpha1', kind: 'Agent', metadata: { name: 'busy', version: '1' }, spec: { capabilities: { provides }, budgets: {} } }
const any = { summary: 'x', input: {}, output: {} }
export default defineAgent({ manifest, skills: (skill) => [
  skill({ ...any, capability: 'busy.work', async invoke(ctx) {
    for (let i = 0; i < 5; i++) await ctx.effect({ kind: 'look', args: i, mutates: false }, async () => i)
    await ctx.effect({ kind: 'fail', args: null, mutates: false, maxAttempts: 1 }, async () => { throw new Error('not today') }).catch(() => null)
    return null
  } }),
  skill({ ...any, capability: 'busy.wait', async invoke(ctx) {
    return (await ctx.awaitEvent({ kind: 'go', correlation: [], withinMs: 3600000 })).id
  } }),
] })
`

/** @returns sections of the config. */
export async function agentsConfig(folder: string): Promise<{ agent_plane: object }> {
  await writeFile(join(folder, 'busy.ts'), AGENT)
  return { agent_plane: { agents: [join(folder, 'busy.ts')], sweep_interval_secs: 0.2, push: [{ id: 'nobody', url: 'http://127.0.0.1:9/' }] } }
}

/** A round: one run that is done, one that an event ends, and one that goes on waiting. */
export async function workOfAgents(node: TestNode, round: number): Promise<void> {
  const post = async (url: string, payload: object): Promise<Record<string, string>> => {
    const answer = await node.inject({ method: 'POST', url, payload, headers: { 'content-type': 'application/json' } })
    if (answer.statusCode >= 300) throw new Error(`${url}: ${answer.body}`)
    return answer.json()
  }
  const { run: done } = await post(RUNS, { capability: 'busy.work' })
  const { run: waits } = await post(RUNS, { capability: 'busy.wait' })
  await settled(node, done, 'succeeded')
  await settled(node, waits, 'suspended')
  if (round % 2 === 0) await post('/api/v1/plane/events', { id: `event-${round}`, source: 'busy', kind: 'go', correlation: [], payload: null })
  await node.inject('/api/v1/plane/attention')
}

async function settled(node: TestNode, run: string, status: string): Promise<void> {
  for (const end = Date.now() + WAIT_MS; Date.now() < end; await sleep(20)) if ((await node.inject(`${RUNS}/${run}`)).json().status === status) return
  throw new Error(`the run ${run} is not ${status} in time`)
}
