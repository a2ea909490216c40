/** Plans: checked, put into an order, and frozen under the digest of what they say. */
import type { ArgumentSource, Json, PlanNode, Quorum, Topology } from 'svcdb/agents'
import { SvcError } from 'svcdb/lib/errors'
import { digest } from '../record/names.ts'

const DOMAIN = 'svc.plan.v1'
const NODE_ID = /^[a-z][a-z0-9_]{0,63}$/
const MAX_NODES = 1000
const MAX_LENSES = 16
const MAX_TEXT = 4096

/** As it stands in the journal. Steps of the first one are its nodes in this order, numbered from 1. */
export interface FrozenPlan extends Lineage {
  topology: Topology
  nodes: FrozenNode[]
  digest: string
}

export interface FrozenNode {
  id: string
  capability: string
  depends_on: string[]
  terminal: boolean
  args?: Record<string, ArgumentSource>
  verifies?: boolean
  quorum?: Quorum
}

/** Which one it is. */
interface Lineage {
  /** From 1. */
  version: number
  /** Digest of the one that it replaces. */
  derived_from?: string
  /** Why it does. */
  reason?: string
}

const FIRST: Lineage = { version: 1 }

/** @throws SvcError BAD_REQUEST: empty, an id twice, a circle, no terminal, a dependency that is not there, nobody who verifies where the topology asks for it. */
export function freeze(nodes: readonly PlanNode[], topology: Topology = 'dag', lineage: Lineage = FIRST): FrozenPlan {
  const refuse = (why: string) => new SvcError('BAD_REQUEST', `cannot use plan: ${why}`)
  if (nodes.length === 0) throw refuse('it is empty; name a node')
  if (nodes.length > MAX_NODES) throw refuse(`it has ${nodes.length} nodes, and ${MAX_NODES} is the limit`)
  const byId = new Map<string, PlanNode>()
  for (const node of nodes) {
    if (!NODE_ID.test(node.id)) throw refuse(`the id ${JSON.stringify(node.id)} is not lower case letters, digits and "_"`)
    if (byId.has(node.id)) throw refuse(`two nodes are called "${node.id}"`)
    byId.set(node.id, node)
  }
  if (!nodes.some(({ terminal }) => terminal)) throw refuse('no node is terminal; say which gives what the run gives')
  if (!['dag', 'collaborative'].includes(topology)) throw refuse(`the topology ${JSON.stringify(topology)} is none; write dag or collaborative`)
  if (topology === 'collaborative' && !nodes.some(({ verifies }) => verifies))
    throw refuse('several work together in it, and no node verifies what they give; mark one with verifies')
  if (lineage.reason !== undefined && (lineage.reason.trim() === '' || lineage.reason.length > MAX_TEXT))
    throw refuse(`its reason has 1 to ${MAX_TEXT} characters`)
  for (const { id, depends_on = [], args = {}, verifies = false, quorum } of nodes) {
    if (verifies && depends_on.length === 0) throw refuse(`node "${id}" verifies, and depends on nothing that it could look at`)
    if (quorum !== undefined) checkQuorum(quorum, verifies, (why) => refuse(`the quorum of node "${id}" ${why}`))
    for (const name of depends_on) if (!byId.has(name)) throw refuse(`node "${id}" depends on ${JSON.stringify(name)}, which is not there`)
    for (const [member, source] of Object.entries(args))
      if (source.from === 'node' && !depends_on.includes(source.node))
        throw refuse(`"${member}" of node "${id}" comes from ${JSON.stringify(source.node)}, on which it does not depend`)
  }
  const ranks = ranksOf(byId)
  if (ranks === undefined) throw refuse('its nodes depend on one another in a circle')
  const ordered = [...nodes].sort((a, b) => (ranks.get(a.id) as number) - (ranks.get(b.id) as number) || (a.id < b.id ? -1 : 1))
  const content = {
    ...lineage,
    topology,
    nodes: ordered.map(({ id, capability, depends_on = [], args, terminal = false, verifies = false, quorum }) => ({
      id,
      capability,
      depends_on: [...depends_on].sort(),
      terminal,
      ...(args === undefined ? {} : { args }),
      ...(verifies ? { verifies } : {}),
      ...(quorum === undefined ? {} : { quorum: { need: quorum.need, lenses: [...quorum.lenses] } }),
    })),
  }
  return { ...content, digest: digest(DOMAIN, content) }
}

function checkQuorum({ need, lenses }: Quorum, verifies: boolean, refuse: (why: string) => SvcError): void {
  if (!verifies) throw refuse('goes with verifies, and only with it')
  if (lenses.length === 0 || lenses.length > MAX_LENSES || lenses.some((lens) => lens.trim() === '' || lens.length > MAX_TEXT))
    throw refuse(`has 1 to ${MAX_LENSES} lenses, each a text`)
  if (new Set(lenses).size < lenses.length) throw refuse('has a lens twice; who looks twice from one side sees no more')
  if (!Number.isInteger(need) || need * 2 <= lenses.length || need > lenses.length) throw refuse(`needs more than half of its ${lenses.length} lenses`)
}

/** Whether it says what its digest says. */
export function isWhole({ digest: named, ...content }: FrozenPlan): boolean {
  return digest(DOMAIN, content) === named
}

/** The longest way from a node without dependencies; undefined for a circle. */
function ranksOf(byId: ReadonlyMap<string, PlanNode>): Map<string, number> | undefined {
  const ranks = new Map<string, number>()
  for (let grown = true; grown && ranks.size < byId.size; ) {
    grown = false
    for (const [id, { depends_on = [] }] of byId) {
      if (ranks.has(id) || !depends_on.every((name) => ranks.has(name))) continue
      ranks.set(id, Math.max(-1, ...depends_on.map((name) => ranks.get(name) as number)) + 1)
      grown = true
    }
  }
  return ranks.size === byId.size ? ranks : undefined
}

/** What a step is given. @param outputs of the nodes that are done. @throws Error for a member that is not there. */
export function inputOf({ id, args }: FrozenNode, input: Json, outputs: ReadonlyMap<string, Json>): Json {
  if (args === undefined) return input
  return Object.fromEntries(
    Object.entries(args).map(([member, source]) => {
      if (source.from === 'const') return [member, source.value]
      const whole = source.from === 'run_input' ? input : (outputs.get(source.node) as Json)
      if (source.field === undefined) return [member, whole]
      const field = typeof whole === 'object' && whole !== null && !Array.isArray(whole) && Object.hasOwn(whole, source.field) ? whole[source.field] : undefined
      if (field === undefined) throw new Error(`"${member}" of node "${id}" is taken from the member "${source.field}", which is not there`)
      return [member, field]
    }),
  )
}
