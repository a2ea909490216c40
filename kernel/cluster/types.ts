/** What administers a cluster, or looks at it: `svc.nodes`. */
import type { NodeDescription } from './records.ts'

export type { NodeDescription } from './records.ts'

/** Of this node, before it starts. */
export interface ClusterSettings {
  /** Default: 1 alone, and made up at each start where state is shared. */
  nodeId?: number
  /** Where others and clients reach it, host:port. */
  addr: string
  mode: string
  diskBytes?: number
  memoryBytes?: number
  cpuCores?: number
  heartbeatMs: number
  /** A node that was silent for so many heartbeats is dead. */
  missedBeats: number
}

/** `draining`: to be decommissioned, and still with work or calls. `decommissioned`: it turns calls away and has no work left. */
export type NodeStatus = 'active' | 'dead' | 'draining' | 'decommissioned' | 'stopped'

/** A node as others see it. Sizes in bytes; 0 = not known. */
export interface NodeView extends NodeDescription {
  status: NodeStatus
  generation: number
  /** Milliseconds since the Unix epoch, by the clock of that node. */
  lastHeartbeat: number
  /** What it owns, `<plugin>/<name>`, by name. */
  work: string[]
  /** Whether it is a process that shares this state; else it was registered by a call. */
  process: boolean
  /** Whether it is the one that answers. */
  self: boolean
}

/** Work that one of the nodes does for all. `token` grows with every change of hands. */
export interface WorkView {
  work: string
  /** Undefined = nobody's at the moment. */
  owner: number | undefined
  token: number
  /** Who is to have it next. */
  to: number | undefined
}

/** Work that is to change hands: ids of the node that has it, and of the one that is to have it. */
export interface WorkMove {
  work: string
  from: number
  to: number
}

/** The nodes that share their state with this one; alone it is a cluster of one. */
export interface Nodes {
  /** Of this node. Known from the start phase on. */
  readonly nodeId: number
  /** Whether other processes see the same state. Known from the start phase on. */
  readonly isShared: boolean
  /** Whether this node is decommissioned. */
  readonly isDraining: boolean
  /** In setup. Those of a later call win. */
  configure(settings: Partial<ClusterSettings>): void
  /** By id. */
  nodes(): Promise<NodeView[]>
  /** By name. */
  work(): Promise<WorkView[]>
  /** Adds a node that is no process of this state, or takes one back that was decommissioned. @throws CONFLICT for an id that is alive elsewhere. */
  register(node: NodeDescription): Promise<{ generation: number }>
  /** @throws NOT_FOUND, and CONFLICT for a generation that is not the newest. */
  heartbeat(id: number, generation: number | undefined): Promise<void>
  /** @throws NOT_FOUND, CONFLICT for one that runs. */
  deregister(id: number): Promise<void>
  /** The node gives its work up and turns calls away. @throws NOT_FOUND, CONFLICT for the last that is active. */
  decommission(id: number): Promise<void>
  /** Has owners hand work over until each has as much as the others that could do it. */
  rebalance(): Promise<WorkMove[]>
}

/** How work is owned (`Svc.own`). */
export interface OwnOptions {
  /** Each node does it, until it is decommissioned: work that several may do at once, such as a member of a consumer group. The claim's token is 0. */
  everywhere?: true
}

/** Work that a plugin wants to own, until it stops. */
export interface Owned {
  /** Whether this process has it. */
  readonly owned: boolean
  /** Ends it here, and lets another node have it. Safe twice. */
  stop(): Promise<void>
}
