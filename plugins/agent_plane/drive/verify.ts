/** Steps that verify: what they give says whether what they looked at has passed, from one side or from several. */
import type { Json, Quorum, TaskDecision, TaskRequest } from 'svcdb/agents'
import { ownProse } from 'svcdb/agents'
import type { FrozenNode } from '../plan/plan.ts'

interface Verdict {
  passed: boolean
  reason?: string
  lens?: string
}

/** Asks a person. */
type Ask = (request: TaskRequest) => Promise<TaskDecision>

/**
 * @param look invokes the skill with what it is given. @returns what the step gives. @throws Error for what has not passed: then the step has failed.
 */
export async function verified({ id, quorum }: FrozenNode, input: Json, look: (input: Json) => Promise<Json>, ask: Ask): Promise<Json> {
  if (quorum === undefined) {
    const given = await look(input)
    const { passed, reason } = verdictOf(id, given)
    if (!passed) throw new Error(`node "${id}" verifies, and it has not passed${because(reason)}`)
    return given
  }
  const verdicts = await panel(id, quorum, input, look)
  const passes = verdicts.filter(({ passed }) => passed).length
  const failed = verdicts.find(({ passed }) => !passed)
  if (passes >= quorum.need) return { passed: true, verdicts: verdicts as unknown as Json }
  if (verdicts.length - passes >= quorum.need) throw new Error(`node "${id}" verifies, and it has not passed${because(failed?.reason)}`)
  // Whichever side had more is no answer: a person has to look.
  const { approved, decided_by: by } = await ask({
    kind: 'verification.split',
    summary: ownProse(`${passes} of ${verdicts.length} say that it has passed, and ${quorum.need} are needed. Has it?`),
    proposed_action: { node: id, verdicts: verdicts as unknown as Json },
  })
  if (!approved) throw new Error(`node "${id}" verifies, those who looked did not agree, and ${by} has not let it pass`)
  return { passed: true, verdicts: verdicts as unknown as Json, decided_by: by }
}

async function panel(id: string, { lenses }: Quorum, input: Json, look: (input: Json) => Promise<Json>): Promise<Verdict[]> {
  if (typeof input !== 'object' || input === null || Array.isArray(input))
    throw new Error(`node "${id}" is to look from several sides: its input is an object, into which "lens" is put`)
  const verdicts: Verdict[] = []
  // One after the other: effects of a step are numbered.
  for (const lens of lenses) verdicts.push({ ...verdictOf(id, await look({ ...input, lens })), lens })
  return verdicts
}

function verdictOf(id: string, given: Json): Verdict {
  const { passed, reason } = (typeof given === 'object' && given !== null && !Array.isArray(given) ? given : {}) as { passed?: Json; reason?: Json }
  if (typeof passed !== 'boolean') throw new Error(`node "${id}" verifies, and did not say whether it has passed: it gives {"passed", "reason"?}`)
  return { passed, ...(typeof reason === 'string' ? { reason } : {}) }
}

function because(reason: string | undefined): string {
  return reason === undefined ? '' : `: ${reason}`
}
