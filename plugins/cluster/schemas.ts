/** Shapes of requests and answers. */
import { Type } from 'svcdb/lib/schema'
import { MODES } from './config.ts'

const id = (description: string) => Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER, description })
const size = (description: string) => Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, description })
const addr = Type.String({ minLength: 3, maxLength: 261, pattern: '^[^\\s/]+:[0-9]{1,5}$', description: 'host:port' })
const name = (description: string) => Type.String({ minLength: 1, maxLength: 256, description })

export const registerBody = Type.Object(
  {
    node_id: id('Of the node'),
    addr: Type.Optional(addr),
    grpc_addr: Type.Optional(addr),
    mode: Type.Enum([...MODES], { default: 'data' }),
    disk_bytes: Type.Integer({ ...size('Bytes of its disk; 0 = not known'), default: 0 }),
    memory_bytes: Type.Integer({ ...size('Bytes of its memory; 0 = not known'), default: 0 }),
    cpu_cores: Type.Integer({ ...size('0 = not known'), default: 0 }),
  },
  { additionalProperties: false },
)
export const registered = Type.Object({
  ok: Type.Boolean(),
  message: Type.String(),
  generation: Type.Integer({ description: 'What its heartbeats are to name' }),
})
export const deregisterBody = Type.Object({ node_id: id('Of the node') }, { additionalProperties: false })
export const heartbeatBody = Type.Object(
  {
    node_id: id('Of the node'),
    generation: Type.Optional(Type.Integer({ minimum: 0, description: 'That of the answer to its registration; absent = the newest' })),
  },
  { additionalProperties: false },
)
export const nodePath = Type.Object({ id: id('Of the node') })
export const done = Type.Object({ ok: Type.Boolean(), message: Type.String() })
export const alive = Type.Object({ ok: Type.Boolean() })

export const listQuery = Type.Object({
  offset: Type.Integer({ minimum: 0, default: 0 }),
  limit: Type.Integer({ minimum: 1, maximum: 10_000, default: 100 }),
})
const status = Type.Enum(['active', 'dead', 'draining', 'decommissioned', 'stopped'], {
  description:
    'draining: to be decommissioned, and still with work or calls; decommissioned: it turns calls away and has no work left; dead: it was silent for too many heartbeats',
})
const works = Type.Array(Type.String(), { description: 'What it owns: `<plugin>/<name>`' })
const node = Type.Object({
  node_id: Type.Integer(),
  addr: Type.String(),
  grpc_addr: Type.String({ description: 'The same' }),
  mode: Type.String(),
  disk_bytes: Type.Integer(),
  memory_bytes: Type.Integer(),
  cpu_cores: Type.Integer(),
  status,
  generation: Type.Integer({ description: 'Of its starts and registrations' }),
  last_heartbeat: Type.Integer({ description: 'Milliseconds since the Unix epoch, by the clock of whoever wrote it' }),
  process: Type.Boolean({ description: 'Whether it is a process that shares this state; otherwise it was registered by a call' }),
  work: works,
})
export const listing = Type.Object({ items: Type.Array(node), total: Type.Integer(), offset: Type.Integer(), limit: Type.Integer() })

export const regionBody = Type.Object(
  {
    region_id: id('Of the region'),
    namespace: Type.Optional(Type.String({ maxLength: 63, description: 'Where namespaces are kept apart; default that of the call' })),
    measurement: name('Name of a measurement, or "*" for all of the namespace'),
    leader_node_id: id('Node that is to be sent its writes'),
    replica_node_ids: Type.Array(id('Of a node'), {
      default: [],
      maxItems: 100,
      uniqueItems: true,
      description: 'Nodes that take its writes when the leader is gone',
    }),
    replication_factor: Type.Integer({ minimum: 1, maximum: 100, default: 1, description: 'Kept and shown: copies are the storage engine’s' }),
  },
  { additionalProperties: false },
)
export const regionPath = Type.Object({ id: Type.String({ description: 'region_id' }) })
export const stateBody = Type.Object(
  { state: Type.String({ description: 'active, migrating, readonly (or read_only), replicating or splitting' }) },
  { additionalProperties: false },
)

const route = Type.Object({
  region_id: Type.Integer(),
  measurement: Type.String(),
  leader_node_id: Type.Integer(),
  leader_addr: Type.String(),
  replicas: Type.Array(Type.Object({ node_id: Type.Integer(), addr: Type.String() })),
})
export const routing = Type.Object({
  version: Type.Integer({ description: 'Counts the changes of the table' }),
  measurement_count: Type.Integer(),
  routes: Type.Record(Type.String(), Type.Array(route)),
})
export const health = Type.Object({
  status: Type.Enum(['healthy', 'degraded', 'unavailable'], { description: 'degraded: a node is dead; unavailable: no node is active' }),
  ok: Type.Boolean(),
  cluster_available: Type.Boolean(),
  total_nodes: Type.Integer({ description: 'Without those that were stopped or decommissioned' }),
  healthy_nodes: Type.Integer(),
  uptime_secs: Type.Integer(),
})
const replica = Type.Object({
  host: Type.String(),
  addr: Type.String(),
  local: Type.Boolean({ description: 'Whether it is the one that answered' }),
  errors: Type.Integer({ description: 'Of its peers with it, of late' }),
  tables: Type.Optional(Type.Integer({ description: 'Replicated tables of this system; absent, as the next two, where the replica did not answer' })),
  readonly_tables: Type.Optional(Type.Integer()),
  delay_secs: Type.Optional(Type.Integer({ description: 'How far the table that is most behind is behind' })),
})
export const topology = Type.Object({
  routing_version: Type.Integer(),
  node_count: Type.Integer(),
  region_count: Type.Integer(),
  measurement_count: Type.Integer(),
  nodes: Type.Array(
    Type.Object({
      node_id: Type.Integer(),
      grpc_addr: Type.String(),
      role: Type.String(),
      leader_regions: Type.Integer(),
      replica_regions: Type.Integer(),
      status,
      work: works,
    }),
  ),
  storage: Type.Optional(
    Type.Object(
      { name: Type.String(), shards: Type.Array(Type.Object({ number: Type.Integer(), replicas: Type.Array(replica) })) },
      { description: 'Shards and replicas of the storage engine, where it has some' },
    ),
  ),
  uptime_secs: Type.Integer(),
})
const move = { from: Type.Integer(), to: Type.Integer() }
export const rebalanced = Type.Object({
  accepted: Type.Boolean(),
  message: Type.String(),
  moves: Type.Array(Type.Object({ work: Type.String(), ...move }), { description: 'What is handed over, within a heartbeat or two' }),
  regions: Type.Array(Type.Object({ region_id: Type.Integer(), ...move }), { description: 'Whose leader is another now' }),
})
