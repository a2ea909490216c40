import { cpus, totalmem } from 'node:os'
import { definePlugin, type Svc } from 'svcdb'
import { configSchema } from './config.ts'
import { ClusterHandler } from './handler.ts'
import { RegionStore } from './region-store.ts'
import * as schemas from './schemas.ts'

const PATH = '/api/v1/admin'
const tags = ['admin']
const config = { action: 'admin' as const }
const MAX_REGIONS = 10_000

export default definePlugin({
  id: 'cluster',
  summary: 'Administers the nodes that share their state: who is there, who does what, and where clients send what',
  stability: 'beta',
  config: configSchema,
  capabilities: ['state'],
  auditActions: ['node_register', 'node_deregister', 'node_decommission', 'region_create', 'region_state', 'cluster_rebalance'],
  setup(svc, settings) {
    const { node_id, addr, mode, heartbeat_interval_secs, missed_heartbeats } = settings
    const heartbeatMs = heartbeat_interval_secs * 1000
    svc.nodes.configure({
      ...(node_id !== undefined && { nodeId: node_id }),
      addr: addr ?? svc.server.http_addr,
      mode,
      heartbeatMs,
      missedBeats: missed_heartbeats,
      memoryBytes: totalmem(),
      cpuCores: cpus().length,
    })
    const regions = new RegionStore(() => svc.storage.state(svc.id), MAX_REGIONS)
    let watching = false
    const watch = (): void => {
      if (watching) return
      watching = true
      svc.schedule('regions', heartbeatMs, ({ guard }) => handler.failOver(guard))
    }
    const handler = new ClusterHandler(svc, regions, watch)
    // A node that is alone and has no regions rests.
    svc.start(async () => {
      if (svc.nodes.isShared || (await regions.read()).regions.length > 0) watch()
    })
    declareRoutes(svc, handler)
  },
})

function declareRoutes({ http }: Svc, handler: ClusterHandler): void {
  const route = (summary: string, answer: object, more: object = {}) => ({ config, schema: { tags, summary, ...more, response: answer } })
  http.post(
    `${PATH}/nodes`,
    route('Registers a node, or takes a decommissioned one back', { 201: schemas.registered }, { body: schemas.registerBody }),
    async (request, reply) => {
      const answer = await handler.register(request)
      reply.code(201)
      return answer
    },
  )
  http.get(`${PATH}/nodes`, route('Nodes by id, with their status and work', { 200: schemas.listing }, { querystring: schemas.listQuery }), (request) =>
    handler.list(request),
  )
  http.delete(`${PATH}/nodes`, route('Deregisters a node that has ended', { 200: schemas.done }, { body: schemas.deregisterBody }), (request) =>
    handler.deregister(request),
  )
  http.post(`${PATH}/heartbeat`, route('Says that a registered node is alive', { 200: schemas.alive }, { body: schemas.heartbeatBody }), (request) =>
    handler.heartbeat(request),
  )
  http.post(
    `${PATH}/nodes/:id/decommission`,
    route('Has a node hand its work over and turn calls away', { 202: schemas.done }, { params: schemas.nodePath }),
    async (request, reply) => {
      const answer = await handler.decommission(request)
      reply.code(202)
      return answer
    },
  )
  http.post(
    `${PATH}/regions`,
    route('Says which node is to be sent the writes of a measurement', { 201: schemas.done }, { body: schemas.regionBody }),
    async (request, reply) => {
      const answer = await handler.createRegion(request)
      reply.code(201)
      return answer
    },
  )
  http.put(
    `${PATH}/regions/:id/state`,
    route('Changes the state of a region', { 200: schemas.done }, { params: schemas.regionPath, body: schemas.stateBody }),
    (request) => handler.setRegionState(request),
  )
  http.get(`${PATH}/routing`, route('Which node is to be sent the writes of what', { 200: schemas.routing }), () => handler.routing())
  http.get(`${PATH}/health`, route('How many nodes are alive', { 200: schemas.health }), () => handler.health())
  http.get(`${PATH}/topology`, route('Nodes with their regions and work, and the shards of the storage', { 200: schemas.topology }), () => handler.topology())
  http.post(`${PATH}/rebalance`, route('Spreads work and regions evenly over the nodes', { 202: schemas.rebalanced }), async (request, reply) => {
    const answer = await handler.rebalance(request)
    reply.code(202)
    return answer
  })
}
