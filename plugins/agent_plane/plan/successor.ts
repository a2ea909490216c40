/** Another plan for the rest of a run: checked as the first one was, and for what has begun already. */
import type { AgentRef, ChainLink, PlanePolicy, PlanNode, Skill, Topology } from 'svcdb/agents'
import { SvcError } from 'svcdb/lib/errors'
import type { RunJournal } from '../drive/run-journal.ts'
import { checkChain, permitAdmission } from '../quota/admission.ts'
import { canonical } from '../record/canonical.ts'
import { checkGoverned, type Governing } from './governing.ts'
import { type FrozenPlan, freeze } from './plan.ts'

interface Successor {
  /** A text is the id of a node of the plan in force, which stays as it is. */
  nodes: readonly (PlanNode | string)[]
  reason: string
  topology?: Topology
}

export interface SuccessorTools {
  skills: ReadonlyMap<string, Skill>
  policy?: PlanePolicy | undefined
  governing?: Governing
}

/** @throws SvcError BAD_REQUEST, FORBIDDEN: the plan in force stays. */
export async function successorOf(
  journal: RunJournal,
  { nodes: given, reason, topology }: Successor,
  { skills, policy, governing }: SuccessorTools,
): Promise<FrozenPlan> {
  const { plans } = journal
  const refuse = (why: string) => new SvcError('BAD_REQUEST', `cannot use plan: ${why}`)
  const { version, digest, topology: before, nodes: known } = plans.current
  const nodes = given.map((one): PlanNode => {
    if (typeof one !== 'string') return one
    const kept = known.find(({ id }) => id === one)
    if (kept === undefined) throw refuse(`the plan in force has no node ${JSON.stringify(one.slice(0, 64))} that could stay`)
    return kept
  })
  const plan = freeze(nodes, topology ?? before, { version: version + 1, derived_from: digest, reason })
  for (const node of plan.nodes) {
    if (!skills.has(node.capability)) throw refuse(`nothing here has the capability ${JSON.stringify(node.capability)}`)
    const number = plans.numberOf(node.id)
    if (journal.steps.has(number) && canonical(plans.nodeOf(number)) !== canonical(node))
      throw refuse(`node "${node.id}" has begun, and is another one in it; leave it out, or as it is`)
  }
  const {
    capability,
    governed_by: agent,
    admitted_by: actor = '',
  } = (journal.last('RunAdmitted')?.payload ?? {}) as {
    capability: string
    governed_by?: AgentRef
    admitted_by?: string
  }
  checkGoverned(agent, plan.nodes, governing)
  const chain = journal.last('IdentityBound')?.payload.chain as ChainLink[] | undefined
  if (chain !== undefined) checkChain({ chain, input: null, actor }, plan)
  await permitAdmission(policy, capability, { subjects: journal.subjects, ...(agent === undefined ? {} : { agent }) }, plan)
  return plan
}
