/**
 * What nodes that share a state store keep there of one another, under the owner `kernel` (docs/formats/cluster-state.md).
 *
 * Invariants
 * - A lease's token grows with every change of hands, and with every new begin of its work. It never goes back.
 * - A lease is its owner's as long as the node has the generation that the lease names, and beats.
 */

/** What a node says of itself, or is said of it by who registers it. Sizes in bytes; 0 = not known. */
export interface NodeDescription {
  node_id: number
  /** host:port. */
  addr: string
  mode: string
  disk_bytes: number
  memory_bytes: number
  cpu_cores: number
}

export interface NodeRecord extends NodeDescription {
  /** Of its starts and registrations: what is of an earlier one no longer counts. */
  generation: number
  /** Of the process; absent for a node that was registered by hand and beats by calls. */
  session?: string
  /** Counts up: who sees it stand still for `timeout_ms` takes the node for dead. */
  beat: number
  /** Of the beat, by the wall clock of whoever wrote it, milliseconds since the Unix epoch: for people only. */
  beat_at: number
  timeout_ms: number
  /** Work that it could do. */
  wants: string[]
  /** It is to give up its work and takes none. */
  draining?: true
  /** Whether it has seen that: it turns calls away, and nothing it owned is left. Absent in a record of a process that does not say it. */
  drained?: boolean
  /** It has ended by itself. */
  stopped?: true
  /** Its id was made up at its start: nobody comes back under it. */
  ephemeral?: true
}

/** When work that comes in turns was done. */
export interface Slot {
  number: number
  /** By the wall clock of the owner, milliseconds since the Unix epoch. */
  begun: number
  done: boolean
}

export interface LeaseRecord {
  /** Absent = nobody's. */
  owner?: number
  generation: number
  token: number
  /** Who is to have it next. */
  to?: number
  slot?: Slot
}

const NODES = 'node/'
const LEASES = 'owner/'
export const NODE_KEYS = { prefix: NODES }
export const LEASE_KEYS = { prefix: LEASES }
export const nodeKey = (id: number): string => `${NODES}${id}`
export const leaseKey = (work: string): string => `${LEASES}${work}`
export const workOf = (key: string): string => key.slice(LEASES.length)

/** Where a store remembers which owner has written last. */
export const fenceKey = (work: string): string => `fence/${work}`

export const holds = ({ owner, generation }: LeaseRecord, node: NodeRecord | undefined): boolean =>
  node !== undefined && owner === node.node_id && generation === node.generation

export const ownerOf = (lease: LeaseRecord | undefined, nodes: ReadonlyMap<number, NodeRecord>): NodeRecord | undefined =>
  lease?.owner === undefined ? undefined : nodes.get(lease.owner)

/** Who has the work of a lease, if that is still in force. */
export function holderOf(
  lease: LeaseRecord | undefined,
  nodes: ReadonlyMap<number, NodeRecord>,
  isAlive: (node: NodeRecord) => boolean,
): NodeRecord | undefined {
  const owner = ownerOf(lease, nodes)
  return lease !== undefined && owner !== undefined && holds(lease, owner) && isAlive(owner) ? owner : undefined
}
