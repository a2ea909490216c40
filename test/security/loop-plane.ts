/** A plane with tasks whose prose is made to be slow to look at, for the watched node. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type HttpBody, JSON_TYPE } from './loop-body.ts'

export const PLANE_PLUGINS = ['agent_plane', 'operator_api', 'cedar']
const TOKEN = 'token-of-the-watched-node'.padEnd(40, 'x')
const RUNS = '/api/v1/admin/agents/runs'
const WAIT_MS = 60_000

/** Opens tasks, and waits, so that they stay. Each text is of other words: of one script, of characters of all scripts, of two scripts in each word. */
const AGENT = `import { defineAgent } from ${JSON.stringify(import.meta.resolve('svcdb/agents'))}
const manifest = { apiVersion: 'svc/v1alpha1', kind: 'Agent', metadata: { name: 'asker', version: '1' }, spec: { capabilities: { provides: ['asker.do'] }, budgets: {} } }
const many = (count, of) => Array.from({ length: count }, (_, i) => of(i))
const KINDS = [
  (n) => many(5000, (i) => String.fromCodePoint(0x430 + i % 32, 0x430 + (i >> 5) % 32, 0x430 + (n + (i >> 10)) % 32)).join(' '),
  (n) => many(2000, (i) => String.fromCodePoint(...many(8, (j) => 0x100 + (((n * 16000 + i * 8 + j) * 11) % 0xd600)))).join(' '),
  (n) => many(10000, (i) => String.fromCharCode(97 + i % 26, 0x430 + (i >> 4) % 32, 97 + (n + (i >> 9)) % 26)).join(' '),
]
const text = (n) => { let it = KINDS[n % 3](n); while (Buffer.byteLength(it) > 60000) it = it.slice(0, -1000); return it }
export default defineAgent({ manifest, skills: (skill) => [skill({
  capability: 'asker.do', summary: 'x', input: { type: 'object' }, output: {},
  async invoke(ctx, { tasks }) {
    for (let i = 0; i < tasks; i++) {
      const label = { provenance: ['mail'], trust: 'untrusted', sensitivity: 'internal' }
      const evidence = text(i).match(/.{1,8000}/gsu).map((value) => ({ value, label }))
      await ctx.openTask({ kind: 'ask', summary: 'May I?', proposed_action: null, evidence })
    }
    await ctx.awaitEvent({ kind: 'go', correlation: [], withinMs: 3600000 })
    return null
  },
})] })
`

/** @returns sections of the config. */
export async function planeConfig(folder: string): Promise<string> {
  const file = async (name: string, content: string): Promise<string> => {
    await writeFile(join(folder, name), content)
    return JSON.stringify(join(folder, name))
  }
  const tokens = await file('tokens.yaml', `- token: ${TOKEN}\n  actor: ann\n`)
  const policy = await file('api.cedar', 'permit (principal, action, resource);')
  const agent = await file('asker.ts', AGENT)
  return `[authorization]\nengine = "none"\n[agent_plane]\nagents = [${agent}]\n[operator_api]\ntokens_file = ${tokens}\npolicy = ${policy}\n`
}

/** @param size scales a count. */
export function planeBodies(size: (most: number) => number): HttpBody[] {
  return [
    {
      over: 'http',
      method: 'GET',
      name: 'GET /tasks: prose of many scripts',
      path: '/api/v1/plane/tasks',
      headers: { authorization: `Bearer ${TOKEN}` },
      body: () => Buffer.alloc(0),
      prepare: (url) => opened(url, size(100)),
    },
  ]
}

async function opened(url: string, tasks: number): Promise<void> {
  const body = JSON.stringify({ capability: 'asker.do', input: { tasks }, idempotency_key: `tasks-${tasks}` })
  const answer = await fetch(`${url}${RUNS}`, { method: 'POST', headers: JSON_TYPE, body })
  if (answer.status !== 202) throw new Error(await answer.text())
  const { run } = (await answer.json()) as { run: string }
  for (const end = Date.now() + WAIT_MS; Date.now() < end; await new Promise((resolve) => setTimeout(resolve, 50))) {
    const { status } = (await (await fetch(`${url}${RUNS}/${run}`)).json()) as { status: string }
    if (status === 'suspended') return
    if (status !== 'running') throw new Error(`the run that opens tasks is ${status}`)
  }
  throw new Error('the tasks are not open in time')
}
