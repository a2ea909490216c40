/** What the policies of a node are asked about runs and effects: their schema, and the question as Cedar has it. */
import type { LoadedPolicies, Logger, PolicyQuestion } from 'svcdb'
import type { PlanePolicy } from 'svcdb/agents'

export type PlaneAction = 'run:admit' | 'effect:perform' | 'data:release'

/** Cedar: policies are checked against it when they are loaded. */
export const PLANE_SCHEMA = `
entity Actor;
entity Resource;
type Agent = { name: String, version: String, digest: String };
action "run:admit" appliesTo {
  principal: [Actor], resource: [Resource],
  context: { tenant: String, capabilities: Set<String>, subjects: Set<String>, agent?: Agent }
};
action "effect:perform" appliesTo {
  principal: [Actor], resource: [Resource],
  context: { tenant: String, run: String, kind: String, mutates: Bool, subjects: Set<String>, args: String }
};
action "data:release" appliesTo {
  principal: [Actor], resource: [Resource],
  context: { tenant: String, run: String, kind: String, subjects: Set<String>, sensitivity: String, trust: String, provenance: Set<String> }
};
`

/** One question for each action, to find policies that cannot answer before the first run. */
const REHEARSED: Readonly<Record<PlaneAction, Record<string, unknown>>> = {
  'run:admit': { capabilities: [], subjects: [] },
  'effect:perform': { run: 'rehearsal', kind: 'rehearsal', mutates: false, subjects: [], args: 'null' },
  'data:release': { run: 'rehearsal', kind: 'rehearsal', subjects: [], sensitivity: 'internal', trust: 'untrusted', provenance: [] },
}

/** @param principal for whom a run acts. @param resource what it is to do. */
export function questionOf(principal: string, action: PlaneAction, resource: string, context: Record<string, unknown>): PolicyQuestion {
  return { principal: { type: 'Actor', id: principal }, action, resource: { type: 'Resource', id: resource }, context }
}

/** Asks about what a tenant does. Why a question could not be answered is in the log. */
export function policyOf(policies: LoadedPolicies, tenant: string, log: Logger): PlanePolicy {
  return async (question) => {
    const answer = policies.decide({ ...question, context: { ...question.context, tenant } })
    if (answer.outcome === 'malformed')
      log.error({ tenant, action: question.action, reason: answer.reason }, 'refused, as the policies of the agent plane could not be evaluated')
    return answer
  }
}

/** @throws Error naming the action. */
export function rehearse(policies: LoadedPolicies, tenants: readonly string[]): void {
  for (const tenant of tenants)
    for (const [action, context] of Object.entries(REHEARSED)) {
      const answer = policies.decide(questionOf('rehearsal', action as PlaneAction, 'rehearsal', { ...context, tenant }))
      if (answer.outcome === 'malformed') throw new Error(`cannot evaluate agent_plane.policy for "${action}" of tenant "${tenant}": ${answer.reason}`)
    }
}
