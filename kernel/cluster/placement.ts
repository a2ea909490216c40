/** Which node is to do what. Pure, and the same for all who know the same: nodes that look at the same records come to the same result. */
import { createHash } from 'node:crypto'
import { holderOf, type NodeRecord } from './records.ts'
import type { Snapshot } from './registry.ts'

/** A node that may be given work. */
export interface Candidate {
  node_id: number
  wants: ReadonlySet<string>
}

export interface Placed {
  work: string
  /** Who has it, if it is one of the candidates. */
  owner?: number | undefined
  /** Who is to have it next. */
  to?: number | undefined
}

interface Move {
  work: string
  from: number
  to: number
}

export function candidatesOf(nodes: ReadonlyMap<number, NodeRecord>, isAlive: (node: NodeRecord) => boolean): Candidate[] {
  return [...nodes.values()]
    .filter((node) => node.session !== undefined && !node.draining && isAlive(node))
    .map(({ node_id, wants }) => ({ node_id, wants: new Set(wants) }))
}

/** All work that is wanted, or was. */
export function placedOf({ nodes, leases }: Snapshot, isAlive: (node: NodeRecord) => boolean): Placed[] {
  const works = new Set([...leases.keys(), ...[...nodes.values()].flatMap(({ wants }) => wants)])
  return [...works].map((work) => {
    const lease = leases.get(work)
    const to = lease?.to === undefined ? undefined : nodes.get(lease.to)
    const reserved = to !== undefined && !to.draining && isAlive(to)
    return { work, owner: holderOf(lease, nodes, isAlive)?.node_id, to: reserved ? to.node_id : undefined }
  })
}

/** How much each has, by node and by the plugin that the work is of. What is on its way counts where it goes to. */
class Loads {
  private readonly total = new Map<number, number>()
  private readonly byPlugin = new Map<string, number>()

  add(node: number, work: string, count: number): void {
    this.total.set(node, this.of(node) + count)
    const key = `${node} ${pluginOf(work)}`
    this.byPlugin.set(key, (this.byPlugin.get(key) ?? 0) + count)
  }

  of(node: number): number {
    return this.total.get(node) ?? 0
  }

  like(node: number, work: string): number {
    return this.byPlugin.get(`${node} ${pluginOf(work)}`) ?? 0
  }

  /** The least loaded first; of equals the one that has least of the plugin, then by a hash, so that not all goes to the lowest number. */
  compare(work: string, a: number, b: number): number {
    return this.of(a) - this.of(b) || this.like(a, work) - this.like(b, work) || (weight(work, a) < weight(work, b) ? -1 : 1)
  }

  /** Whether a move levels more: first by all work, then by that of the plugin. */
  better(a: Move, b: Move): boolean {
    const gain = ({ from, to }: Move): number => this.of(from) - this.of(to)
    const own = ({ work, from, to }: Move): number => this.like(from, work) - this.like(to, work)
    return (gain(a) - gain(b) || own(a) - own(b) || (weight(a.work, a.to) < weight(b.work, b.to) ? 1 : -1)) > 0
  }
}

const pluginOf = (work: string): string => work.slice(0, work.indexOf('/'))
const weight = (work: string, node: number): string => createHash('sha256').update(`${work} ${node}`).digest('hex')

function loadsOf(all: readonly Placed[]): Loads {
  const loads = new Loads()
  for (const { work, owner, to } of all) {
    const holder = to ?? owner
    if (holder !== undefined) loads.add(holder, work, 1)
  }
  return loads
}

/** Who takes what nobody has: what is reserved goes to whom it is reserved for, the rest to who has least. */
export function takers(all: readonly Placed[], candidates: readonly Candidate[]): Map<string, number> {
  const loads = loadsOf(all)
  const found = new Map<string, number>()
  for (const { work, owner, to } of sorted(all)) {
    if (owner !== undefined) continue
    const able = candidates.filter(({ wants }) => wants.has(work)).map(({ node_id }) => node_id)
    const taker = to !== undefined && able.includes(to) ? to : able.toSorted((a, b) => loads.compare(work, a, b))[0]
    if (taker === undefined) continue
    if (to !== undefined) loads.add(to, work, -1)
    loads.add(taker, work, 1)
    found.set(work, taker)
  }
  return found
}

/** What is to change hands so that no node has two more than another that could do its work; as little as possible. */
export function moves(all: readonly Placed[], candidates: readonly Candidate[]): Move[] {
  const loads = loadsOf(all)
  const holder = new Map<string, number>()
  for (const { work, owner, to } of sorted(all)) if (owner !== undefined) holder.set(work, to ?? owner)
  const first = new Map(holder)
  for (;;) {
    let best: Move | undefined
    for (const [work, from] of holder)
      for (const { node_id: to, wants } of candidates)
        if (wants.has(work) && loads.of(from) - loads.of(to) > 1 && (best === undefined || loads.better({ work, from, to }, best))) best = { work, from, to }
    if (best === undefined) break
    loads.add(best.from, best.work, -1)
    loads.add(best.to, best.work, 1)
    holder.set(best.work, best.to)
  }
  return [...holder].flatMap(([work, to]) => {
    const from = first.get(work) as number
    return from === to ? [] : [{ work, from, to }]
  })
}

const sorted = (all: readonly Placed[]): Placed[] => all.toSorted((a, b) => (a.work < b.work ? -1 : 1))
