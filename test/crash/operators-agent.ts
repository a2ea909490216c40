/** The plugin that operators.test.ts has its server load: a skill that asks a person within a case, and one whose effect nobody knows the end of. */
import { definePlugin } from 'svcdb'
import { AGENTS, type AgentPlane, defineSkill, EffectError, type Json, ownProse } from 'svcdb/agents'
import { Type } from 'svcdb/lib/schema'

const ask = defineSkill({
  capability: 'crash.ask',
  summary: 'Asks a person',
  input: Type.Any(),
  output: Type.Any(),
  async invoke(context): Promise<Json> {
    const decision = await context.task({ kind: 'refund', summary: ownProse('Pay it back?'), proposed_action: { cents: 1 } })
    return { approved: decision.approved, reason: decision.reason }
  },
})

const doubt = defineSkill({
  capability: 'crash.doubt',
  summary: 'Does something of which nobody hears',
  input: Type.Any(),
  output: Type.Any(),
  invoke: (context): Promise<Json> =>
    context.effect({ kind: 'pay', args: null, mutates: true }, async () => {
      throw new EffectError('no answer', { disposition: 'in_doubt' })
    }),
})

export default definePlugin({
  id: 'crash_operators',
  summary: 'What the crash test of operators has asked',
  stability: 'experimental',
  requires: [AGENTS],
  setup(svc) {
    for (const skill of [ask, doubt]) svc.use<AgentPlane>(AGENTS).skill(skill)
  },
})
