/** Which agent governs a run: one for all of its plans, whichever of their nodes is its. Nodes of no agent go with any. */
import type { AgentRef } from 'svcdb/agents'
import { SvcError } from 'svcdb/lib/errors'
import type { FrozenNode } from './plan.ts'

/** The agent that provides a capability. */
export type Governing = (capability: string) => AgentRef | undefined

type Nodes = readonly Pick<FrozenNode, 'id' | 'capability'>[]

/** Agents of the nodes, by name. */
function agentsOf(nodes: Nodes, governing: Governing | undefined): Map<string, AgentRef> {
  const found = new Map<string, AgentRef>()
  for (const { capability } of nodes) {
    const agent = governing?.(capability)
    if (agent !== undefined) found.set(agent.name, agent)
  }
  return found
}

/** @returns undefined where no node is an agent's. @throws SvcError BAD_REQUEST where there are several: no declaration says what they may do together. */
export function governingOf(nodes: Nodes, governing: Governing | undefined): AgentRef | undefined {
  const [first, ...others] = agentsOf(nodes, governing).values()
  if (others.length === 0) return first
  const [all, last] = [[first, ...others.slice(0, -1)].map(({ name }) => `"${name}"`).join(', '), others.at(-1)?.name]
  throw new SvcError('BAD_REQUEST', `cannot use plan: its nodes are of the agents ${all} and "${last}", and one governs a run; have it commission the others`)
}

/** Whether the agent that is here is the one that governs a run. */
export function isGovernedBy(agent: AgentRef | undefined, nodes: Nodes, governing: Governing | undefined): boolean {
  const here = [...agentsOf(nodes, governing).values()]
  return here.length <= 1 && here[0]?.digest === agent?.digest
}

/** @param agent that governs the run. @throws SvcError BAD_REQUEST for a node of another one. */
export function checkGoverned(agent: AgentRef | undefined, nodes: Nodes, governing: Governing | undefined): void {
  for (const { id, capability } of nodes) {
    const own = governing?.(capability)
    if (own !== undefined && own.name !== agent?.name)
      throw new SvcError(
        'BAD_REQUEST',
        `cannot use plan: node "${id}" is of the agent "${own.name}", and the run is governed by ${agent === undefined ? 'no agent' : `"${agent.name}"`}; commission it`,
      )
  }
}
