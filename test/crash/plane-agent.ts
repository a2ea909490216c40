/**
 * The plugin that plane.ts has its server load: a skill whose effects are requests to a server that counts them, the event
 * that it waits for, and strict replay by HTTP.
 */
import { definePlugin } from 'svcdb'
import { AGENTS, type AgentPlane, defineSkill, type EffectCall, EffectError, type Json } from 'svcdb/agents'
import { Type } from 'svcdb/lib/schema'

const TIMEOUT_MS = 10_000
const DAY_MS = 86_400_000
const GO = 'crash.go'

async function ask(url: string, init: RequestInit = {}): Promise<Json> {
  const answer = await fetch(url, { ...init, signal: AbortSignal.timeout(TIMEOUT_MS) }).catch((error: Error) => {
    throw new EffectError(error.message, { disposition: 'in_doubt' })
  })
  return (await answer.json()) as Json
}

const work = defineSkill({
  capability: 'crash.work',
  summary: 'Waits until it is told to, does so many things outside, and sleeps in between',
  input: Type.Object({ url: Type.String(), effects: Type.Integer(), pauseMs: Type.Integer() }),
  output: Type.Any(),
  async invoke(context, { url, effects, pauseMs }): Promise<Json> {
    const began = await context.now()
    await context.awaitEvent({ kind: GO, correlation: [{ namespace: GO, value: context.run }], withinMs: DAY_MS })
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
      await context.sleep(Math.floor(pauseMs * (0.5 + (await context.random()))))
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
    svc.http.post('/crash-agent/:run/go', { config: { action: 'admin' } }, async (request) => {
      const { run } = request.params as { run: string }
      return plane.deliver({ id: run, source: GO, kind: GO, correlation: [{ namespace: GO, value: run }], payload: null })
    })
    svc.http.post('/crash-agent/:run/settle', { config: { action: 'admin' } }, async (request) => {
      const { run } = request.params as { run: string }
      const { reached } = request.body as { reached: string[] }
      const by = { actor: 'person', basis: 'asserted' } as const
      const { undecided } = await plane.standing(run)
      for (const { effect } of undecided) {
        const landed = reached.includes(effect)
        const said = landed ? { disposition: 'landed' as const, output: { settled: true } } : { disposition: 'did_not_happen' as const }
        await plane.reconcile(run, effect, { ...said, note: 'looked at the counter' }, by)
      }
      return { status: await plane.decide(run, 'reopen', by, 'it is known') }
    })
    svc.http.get('/crash-agent/:run', { config: { action: 'admin' } }, async (request) => plane.replay((request.params as { run: string }).run))
  },
})
