/** The plugin that plane.ts has its server load: a skill whose effects are requests to a server that counts them, and strict replay by HTTP. */
import { definePlugin } from 'svcdb'
import { AGENTS, type AgentPlane, defineSkill, type EffectCall, EffectError, type Json } from 'svcdb/agents'
import { Type } from 'svcdb/lib/schema'

const TIMEOUT_MS = 10_000

async function ask(url: string, init: RequestInit = {}): Promise<Json> {
  const answer = await fetch(url, { ...init, signal: AbortSignal.timeout(TIMEOUT_MS) }).catch((error: Error) => {
    throw new EffectError(error.message, { disposition: 'in_doubt' })
  })
  return (await answer.json()) as Json
}

const work = defineSkill({
  capability: 'crash.work',
  summary: 'Does so many things outside, and sleeps in between',
  input: Type.Object({ url: Type.String(), effects: Type.Integer() }),
  output: Type.Any(),
  async invoke(context, { url, effects }): Promise<Json> {
    const began = await context.now()
    const given: Json[] = []
    for (let n = 0; n < effects; n++) {
      const about = `${context.run}/${n}`
      const path = (key: string) => `${url}/${encodeURIComponent(about)}?key=${encodeURIComponent(key)}`
      const post = ({ effectKey, idempotencyKey }: EffectCall) =>
        ask(`${path(`${context.run}/${effectKey}`)}&once=${encodeURIComponent(idempotencyKey)}`, { method: 'POST' })
      const probe = async () => {
        const landed = (await ask(path(''))) as { landed: number }
        return landed.landed > 0 ? { landed: true as const, output: { probed: true } } : { landed: false as const }
      }
      const effect = { kind: 'crash.post', args: { about }, mutates: true }
      given.push(
        await context.effect(n % 3 === 2 ? { ...effect, recovery: 'reconcile', probe } : { ...effect, recovery: 'idempotent', maxAttempts: 100 }, post),
      )
      if (n % 4 === 1) await context.sleep(50)
    }
    return { began, given }
  },
})

export default definePlugin({
  id: 'crash_agent',
  summary: 'What the crash test of the agent plane has done',
  stability: 'experimental',
  requires: [AGENTS],
  setup(svc) {
    const plane = svc.use<AgentPlane>(AGENTS)
    plane.skill(work)
    svc.http.get('/crash-agent/:run', { config: { action: 'admin' } }, async (request) => plane.replay((request.params as { run: string }).run))
  },
})
