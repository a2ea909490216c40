/** Gives each step of an agent what an agent may ask. */
import type { ChainLink } from 'svcdb/agents'
import type { Govern } from '../drive/pass.ts'
import { type AgentServices, AgentStep } from './agent-step.ts'

export function governor(parts: AgentServices): Govern {
  return (context, skill, journal) => {
    const agent = parts.registry.of(skill.capability)
    if (agent === undefined) return context
    const bound = journal.last('IdentityBound')?.payload.chain as ChainLink[] | undefined
    const asker = journal.last('RunAdmitted')?.payload.admitted_by as string | undefined
    return AgentStep.over(context, agent, bound ?? [{ id: asker ?? 'nobody', scope: ['*'] }], journal, parts)
  }
}
