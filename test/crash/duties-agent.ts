/** The plugin that duties.ts has its server load: what costs something, what is tried again, what asks a person until a time, and what a case owes by a time. */
import { definePlugin } from 'svcdb'
import { AGENTS, type AgentPlane, defineSkill, EffectError, type Json, ownProse } from 'svcdb/agents'
import { Type } from 'svcdb/lib/schema'

const TIMEOUT_MS = 10_000

/** Tells the counter of an attempt. @returns what it says. */
async function tell(url: string, run: string, attempt: string, key: string): Promise<{ spent: number; fails: boolean }> {
  const query = new URLSearchParams({ run, attempt, key })
  const answer = await fetch(`${url}/?${query}`, { method: 'POST', signal: AbortSignal.timeout(TIMEOUT_MS) }).catch((error: Error) => {
    throw new EffectError(error.message, { disposition: 'in_doubt' })
  })
  return (await answer.json()) as { spent: number; fails: boolean }
}

const Told = Type.Object({ url: Type.String(), times: Type.Optional(Type.Integer()), most: Type.Optional(Type.Integer()) })

const spend = defineSkill({
  capability: 'duties.spend',
  summary: 'Does so many things that cost up to so much each',
  input: Told,
  output: Type.Any(),
  async invoke(context, { url, times = 3, most = 10 }): Promise<Json> {
    for (let n = 0; n < times; n++)
      await context.effect(
        { kind: 'spend', args: { n }, mutates: true, recovery: 'idempotent', maxAttempts: 100, spends: { tokens: most } },
        async ({ effectKey, idempotencyKey, spend }) => {
          const { spent } = await tell(url, context.run, effectKey, idempotencyKey)
          spend({ tokens: spent })
          return spent
        },
      )
    return times
  },
})

const retry = defineSkill({
  capability: 'duties.retry',
  summary: 'Tries something that fails, so many times',
  input: Told,
  output: Type.Any(),
  invoke: (context, { url, times = 3 }): Promise<Json> =>
    context.effect({ kind: 'try', args: null, mutates: true, recovery: 'idempotent', maxAttempts: times }, async ({ effectKey, idempotencyKey }) => {
      const { fails } = await tell(url, context.run, effectKey, idempotencyKey)
      if (fails) throw new EffectError('it is not its day', { disposition: 'did_not_happen' })
      return true
    }),
})

const ask = defineSkill({
  capability: 'duties.ask',
  summary: 'Asks a person, until a time',
  input: Type.Object({ withinMs: Type.Integer(), policy: Type.Enum(['deny', 'escalate', 'proceed']) }),
  output: Type.Any(),
  async invoke(context, { withinMs, policy }): Promise<Json> {
    const expiry = policy === 'escalate' ? { policy, escalate_to: ['chief'] } : policy === 'proceed' ? { policy, allow_unattended: true as const } : { policy }
    const asked = { kind: 'duty', summary: ownProse('Shall it be?'), proposed_action: { policy }, candidate_roles: ['clerk'] }
    return (await context.task({ ...asked, withinMs, on_expiry: expiry })) as unknown as Json
  },
})

const owe = defineSkill({
  capability: 'duties.owe',
  summary: 'Owes its case something by a time, and does it when it is told to',
  input: Type.Object({ withinMs: Type.Integer() }),
  output: Type.Any(),
  async invoke(context, { withinMs }): Promise<Json> {
    const name = context.run.toLowerCase().replace('_', '-')
    await context.deadline(name, { unit: 'minutes', n: withinMs / 60_000 }, { warnBeforeMs: withinMs / 2 })
    try {
      await context.awaitEvent({ kind: 'duties.do', correlation: [{ namespace: 'run', value: context.run }], obligation: name })
      await context.meetDeadline(name)
    } catch (error) {
      return { name, met: false, why: (error as Error).message }
    }
    return { name, met: true }
  },
})

const note = defineSkill({
  capability: 'duties.note',
  summary: 'Tells the counter what began it',
  input: Type.Any(),
  output: Type.Any(),
  invoke: (context): Promise<Json> =>
    context.effect({ kind: 'note', args: null, mutates: true, recovery: 'idempotent', maxAttempts: 100 }, async ({ effectKey, idempotencyKey }) => {
      await tell(process.env.SVC_COUNTER as string, context.run, effectKey, idempotencyKey)
      return true
    }),
})

export default definePlugin({
  id: 'crash_duties',
  summary: 'What the crash test of duties has done',
  stability: 'experimental',
  requires: [AGENTS],
  setup(svc) {
    for (const skill of [spend, retry, ask, owe, note]) svc.use<AgentPlane>(AGENTS).skill(skill)
  },
})
