/** Answers the routes: over the nodes that the kernel knows, and the regions that are kept here. */
import { AUDIT_LOG, type AuditLog, audited, type HttpRequest, type NodeView, type Svc } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import type { RegionStore } from './region-store.ts'
import { evenLeaders, failovers, type Member, type Region, type RegionState, routesOf, STATES } from './routing.ts'

interface RegisterBody {
  node_id: number
  addr?: string
  grpc_addr?: string
  mode: string
  disk_bytes: number
  memory_bytes: number
  cpu_cores: number
}

type RegionBody = Omit<Region, 'state' | 'namespace'> & { namespace?: string }

export class ClusterHandler {
  private readonly svc: Svc
  private readonly regions: RegionStore
  private readonly watch: () => void
  private readonly startedAt: number

  /** @param watch called when there are regions whose leaders may go. */
  constructor(svc: Svc, regions: RegionStore, watch: () => void) {
    this.svc = svc
    this.regions = regions
    this.watch = watch
    this.startedAt = svc.clock.monotonic()
  }

  async register(request: HttpRequest) {
    const { addr, grpc_addr, ...rest } = request.body as RegisterBody
    const { node_id } = rest
    const given = addr ?? grpc_addr
    if (given === undefined) throw new SvcError('INVALID_BODY', `cannot register node ${node_id}: it has no "addr"; say host:port`)
    if (addr !== undefined && grpc_addr !== undefined && addr !== grpc_addr)
      throw new SvcError('BAD_REQUEST', `cannot register node ${node_id}: "addr" and "grpc_addr" are one address, and differ; give one of them`)
    const { generation } = await this.noted(request, 'node_register', `node/${node_id}`, { addr: given, mode: rest.mode }, () =>
      this.svc.nodes.register({ ...rest, addr: given }),
    )
    return { ok: true, message: `node ${node_id} is registered`, generation }
  }

  async list(request: HttpRequest) {
    const { offset, limit } = request.query as { offset: number; limit: number }
    const all = await this.svc.nodes.nodes()
    const items = all
      .slice(offset, offset + limit)
      .map(({ self: _, lastHeartbeat, ...view }) => ({ ...view, grpc_addr: view.addr, last_heartbeat: lastHeartbeat }))
    return { items, total: all.length, offset, limit }
  }

  async deregister(request: HttpRequest) {
    const { node_id } = request.body as { node_id: number }
    await this.noted(request, 'node_deregister', `node/${node_id}`, {}, () => this.svc.nodes.deregister(node_id))
    return { ok: true, message: `node ${node_id} is deregistered` }
  }

  async heartbeat(request: HttpRequest) {
    const { node_id, generation } = request.body as { node_id: number; generation?: number }
    await this.svc.nodes.heartbeat(node_id, generation)
    return { ok: true }
  }

  async decommission(request: HttpRequest) {
    const { id } = request.params as { id: number }
    await this.noted(request, 'node_decommission', `node/${id}`, {}, () => this.svc.nodes.decommission(id))
    await this.failOver()
    return {
      ok: true,
      message: `node ${id} hands its work over and turns calls away; GET /api/v1/admin/nodes shows it as decommissioned when it has done so: stop it then`,
    }
  }

  async createRegion(request: HttpRequest) {
    const { namespace, ...body } = request.body as RegionBody
    const { dataNamespace } = this.svc.context(request)
    const apart = this.svc.server.multi_tenancy
    if (!apart && namespace !== undefined && namespace !== '' && namespace !== 'default')
      throw new SvcError(
        'BAD_REQUEST',
        `cannot create region ${body.region_id} of namespace "${namespace}": the server keeps no namespaces apart; leave it out`,
      )
    const region: Region = { ...body, namespace: apart ? (namespace ?? dataNamespace) : '', state: 'active' }
    const known = new Set((await this.svc.nodes.nodes()).map(({ node_id }) => node_id))
    const { region_id, leader_node_id, replica_node_ids } = region
    const missing = [leader_node_id, ...replica_node_ids].find((node) => !known.has(node))
    if (missing !== undefined)
      throw new SvcError('BAD_REQUEST', `cannot create region ${region_id}: node ${missing} is not registered; POST /api/v1/admin/nodes registers it`)
    if (replica_node_ids.includes(leader_node_id))
      throw new SvcError(
        'BAD_REQUEST',
        `cannot create region ${region_id}: node ${leader_node_id} leads it, and is no replica of itself; leave it out of replica_node_ids`,
      )
    const { measurement } = region
    await this.noted(request, 'region_create', `region/${region_id}`, { measurement, leader_node_id: String(leader_node_id) }, () =>
      this.regions.create(region),
    )
    this.watch()
    return { ok: true, message: `region ${region_id} is created` }
  }

  async setRegionState(request: HttpRequest) {
    const { id: text } = request.params as { id: string }
    const id = Number(text)
    if (!/^[1-9][0-9]{0,15}$/.test(text) || !Number.isSafeInteger(id))
      throw new SvcError('BAD_REQUEST', `cannot change the state of region "${text.slice(0, 64)}": a region_id is a whole number from 1`)
    const { state: given } = request.body as { state: string }
    const state = given === 'read_only' ? 'readonly' : (given as RegionState)
    if (!STATES.includes(state))
      throw new SvcError('BAD_REQUEST', `cannot put region ${id} into state "${given.slice(0, 64)}": it is one of ${STATES.join(', ')}`)
    await this.noted(request, 'region_state', `region/${id}`, { state }, () => this.regions.setState(id, state))
    return { ok: true, message: `region ${id} is ${state}` }
  }

  async routing() {
    const [{ version, regions }, nodes] = await Promise.all([this.regions.read(), this.svc.nodes.nodes()])
    const routes = routesOf(regions, nodes.map(memberOf))
    return { version, measurement_count: Object.keys(routes).length, routes }
  }

  async health() {
    const counted = (await this.svc.nodes.nodes()).filter(({ status }) => status !== 'stopped' && status !== 'decommissioned')
    const healthy = counted.filter(({ status }) => status === 'active').length
    const available = healthy > 0
    return {
      status: !available ? 'unavailable' : healthy < counted.length ? 'degraded' : 'healthy',
      ok: available,
      cluster_available: available,
      total_nodes: counted.length,
      healthy_nodes: healthy,
      uptime_secs: this.uptimeSecs,
    }
  }

  async topology() {
    const [{ version, regions }, nodes, storage] = await Promise.all([this.regions.read(), this.svc.nodes.nodes(), this.svc.storage.topology?.()])
    return {
      routing_version: version,
      node_count: nodes.length,
      region_count: regions.length,
      measurement_count: Object.keys(routesOf(regions, [])).length,
      nodes: nodes.map(({ node_id, addr, mode, status, work }) => ({
        node_id,
        grpc_addr: addr,
        role: mode,
        leader_regions: regions.filter(({ leader_node_id }) => leader_node_id === node_id).length,
        replica_regions: regions.filter(({ replica_node_ids }) => replica_node_ids.includes(node_id)).length,
        status,
        work,
      })),
      ...(storage !== undefined && { storage }),
      uptime_secs: this.uptimeSecs,
    }
  }

  async rebalance(request: HttpRequest) {
    return this.noted(request, 'cluster_rebalance', 'cluster', {}, async () => {
      const moves = await this.svc.nodes.rebalance()
      const [{ regions: all }, nodes] = await Promise.all([this.regions.read(), this.svc.nodes.nodes()])
      const regions = await this.regions.lead(evenLeaders(all, nodes.map(memberOf)))
      const said = [counted(moves.length, 'assignment'), counted(regions.length, 'region')]
      return { accepted: true, message: `${said.join(' and ')} to move`, moves, regions }
    })
  }

  /** Gives regions whose leader is gone to a replica. */
  async failOver(guard?: Parameters<RegionStore['lead']>[1]): Promise<void> {
    const { regions } = await this.regions.read()
    if (regions.length === 0) return
    const moves = await this.regions.lead(failovers(regions, (await this.svc.nodes.nodes()).map(memberOf)), guard)
    for (const { region_id, from, to } of moves) this.svc.log.warn({ region_id, from, to }, 'the leader of a region is gone: a replica leads it now')
  }

  private get uptimeSecs(): number {
    return Math.floor((this.svc.clock.monotonic() - this.startedAt) / 1000)
  }

  private noted<T>(request: HttpRequest, action: string, resource: string, metadata: Record<string, string>, act: () => Promise<T>): Promise<T> {
    return audited(this.svc.find<AuditLog>(AUDIT_LOG), { action, resource, decision: 'allow', by: this.svc.context(request), metadata }, act)
  }
}

const memberOf = ({ node_id, addr, status }: NodeView): Member => ({ node_id, addr, active: status === 'active' })
const counted = (n: number, what: string): string => `${n} ${what}${n === 1 ? '' : 's'}`
