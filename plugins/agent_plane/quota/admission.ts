/** For whom a run is to act, and whether it may: what is asked before anything is written. */
import type { StateReader } from 'svcdb'
import type { AgentRef, Deliverer, Json, PlanePolicy, RunRequest } from 'svcdb/agents'
import { SvcError } from 'svcdb/lib/errors'
import type { FrozenPlan } from '../plan/plan.ts'
import { canonical } from '../record/canonical.ts'
import { instant } from '../record/names.ts'
import { decode } from '../record/record.ts'
import { recordsOf } from '../store/journal.ts'
import { questionOf } from './policy.ts'
import type { Acting } from './store.ts'

const MAX_DEPTH = 3
const MAX_ID = 256
const PATTERN = /^(\*|[a-z][a-z0-9_]*(\.[a-z0-9_]+)*(\.\*)?)$/
const DIGEST = /^[0-9a-f]{64}$/

/** @throws SvcError BAD_REQUEST for a chain or a declaration that is none; FORBIDDEN when a scope does not cover what the plan does. */
export function checkChain({ chain, agent }: RunRequest, plan: FrozenPlan): void {
  const refuse = (why: string) => new SvcError('BAD_REQUEST', `cannot begin a run: ${why}`)
  if (agent !== undefined && (agent.name === '' || agent.name.length > 128 || agent.version === '' || !DIGEST.test(agent.digest)))
    throw refuse('its agent has a name, a version, and a digest of 64 hexadecimal digits')
  if (chain === undefined) return
  if (chain.length === 0 || chain.length > MAX_DEPTH) throw refuse(`its chain has ${chain.length} principals, and may have 1 to ${MAX_DEPTH}`)
  for (const { id, scope } of chain) {
    if (id.trim() === '' || id.length > MAX_ID) throw refuse(`a principal has 1 to ${MAX_ID} characters`)
    const bad = scope.find((pattern) => !PATTERN.test(pattern))
    if (bad !== undefined) throw refuse(`${JSON.stringify(bad.slice(0, 128))} is no pattern of capabilities; write orders.*, orders.refund or *`)
    for (const { capability } of plan.nodes)
      if (!scope.some((pattern) => covers(pattern, capability)))
        throw new SvcError('FORBIDDEN', `cannot begin a run: the scope of "${id}" does not cover "${capability}"`)
  }
}

function covers(pattern: string, capability: string): boolean {
  if (pattern === '*') return true
  return pattern.endsWith('.*') ? capability.startsWith(pattern.slice(0, -1)) : pattern === capability
}

/** What begins with something that somebody delivered acts for them. */
export function actingFor(request: RunRequest, by: Deliverer | undefined): RunRequest {
  if (by === undefined) return request
  const { actor, scope = ['*'], notAfter } = by
  return { ...request, chain: [{ id: actor, scope: [...scope] }], ...(notAfter === undefined ? {} : { notAfter }) }
}

/** @throws SvcError FORBIDDEN. */
export function checkTime({ notAfter, chain, actor }: RunRequest, now: number): void {
  if (notAfter !== undefined && now > notAfter)
    throw new SvcError(
      'FORBIDDEN',
      `cannot begin a run: the right of "${chain?.[0].id ?? actor}" ended at ${instant(notAfter)}; it needs a credential that has not`,
    )
}

/**
 * The declaration that a run is governed by: the one that is here. @param named what the request says that it is. @throws SvcError BAD_REQUEST when that is
 * another one: a run under it could not go on here.
 */
export function governedBy(here: AgentRef | undefined, named: AgentRef | undefined, capability: string): AgentRef | undefined {
  if (named === undefined || (named.digest === here?.digest && named.name === here.name && named.version === here.version)) return here
  const said = ({ name, version, digest }: AgentRef) => `agent "${name}", version ${JSON.stringify(version)}, digest ${digest}`
  const found = here === undefined ? 'no agent here provides it' : `here it is governed by ${said(here)}`
  throw new SvcError('BAD_REQUEST', `cannot begin a run of "${capability}" under ${said(named)}: ${found}; name that one, or none`)
}

export function actingOfRequest({ chain = [], actor, agent }: RunRequest): Acting {
  return { subjects: [...new Set([...chain.map(({ id }) => id), actor])], ...(agent === undefined ? {} : { agent }) }
}

/** @throws SvcError FORBIDDEN with the policy's reason; INTERNAL_ERROR when that cannot be told. */
export async function permitAdmission(policy: PlanePolicy | undefined, capability: string, acting: Acting, plan: FrozenPlan): Promise<void> {
  if (policy === undefined) return
  const [principal] = acting.subjects
  const context = {
    capabilities: [...new Set(plan.nodes.map((node) => node.capability))],
    subjects: acting.subjects,
    ...(acting.agent === undefined ? {} : { agent: acting.agent }),
  }
  const answer = await policy(questionOf(principal, 'run:admit', capability, context))
  if (answer.outcome === 'deny') throw new SvcError('FORBIDDEN', `cannot begin a run: the policies do not allow it: ${answer.reason}`)
  if (answer.outcome === 'malformed') throw new SvcError('INTERNAL_ERROR', 'cannot begin a run: the policies could not be evaluated')
}

/** @param run that was begun with the same idempotency key. @returns it. @throws SvcError CONFLICT where something else was asked for then. */
export async function sameAsked(state: StateReader, run: string, capability: string, input: Json): Promise<string> {
  const [{ raw }] = await recordsOf(state, run, 1, 1)
  const { payload } = decode(raw)
  const refuse = (how: string) => new SvcError('CONFLICT', `cannot begin a run: its idempotency key has begun "${run}" already, ${how}; use another key`)
  if (payload.capability !== capability) throw refuse(`of "${payload.capability}"`)
  if (canonical(payload.input) !== canonical(input)) throw refuse('with another input')
  return run
}
