/**
 * The nodes that share a state store, and which of them does what. Each beats: a record of its own in the store whose counter goes up. Work has a lease, a record
 * that names its owner and a token; who wants work takes its lease when nobody has it, or when the owner's beat stands still. One beat keeps all that a node owns.
 *
 * Invariants
 * - A process takes itself for the owner only while its newest beat is younger than its timeout less half a heartbeat: others wait longer, by their own clocks.
 * - What a process was or did before a pause, a lost store or a change of hands has a smaller token than what came after it (claim.ts).
 * - Without shared state the process owns all it wants, and nothing is written.
 */
import { randomInt, randomUUID } from 'node:crypto'
import { SvcError } from '../lib/errors/index.ts'
import type { Logger } from '../log.ts'
import type { Metrics } from '../metrics.ts'
import type { Clock } from '../plugin.ts'
import type { StateStore } from '../storage/state.ts'
import { Farewell } from './farewell.ts'
import { Liveness } from './liveness.ts'
import { type ClusterMetrics, clusterMetrics } from './metrics.ts'
import { type Candidate, candidatesOf, moves, type Placed, placedOf, takers } from './placement.ts'
import { holderOf, holds, type LeaseRecord, type NodeDescription, type NodeRecord, ownerOf } from './records.ts'
import { ClusterRegistry, type Snapshot, type Takeable, untilNext } from './registry.ts'
import type { ClusterSettings, NodeStatus, NodeView, WorkMove, WorkView } from './types.ts'
import { type OwnedWork, Want, type WantOptions } from './want.ts'

/** What nobody has come back to for so many timeouts is no node any more, if its id was made up. */
const FORGET_TIMEOUTS = 10
const RETRY_PART = 8

interface ClusterDependencies {
  clock: Clock
  log: Logger
  metrics: Metrics
  graceMs: number
  /** Undefined until the storage is open, where there is none, and where it keeps no state. @returns whether others share it. */
  state(): { store: StateStore; shared: boolean } | undefined
  /** Called when calls are to be turned away, or no more. */
  turnAway(reason: SvcError | undefined): void
}

export class Cluster {
  private readonly dependencies: ClusterDependencies
  private readonly metrics: ClusterMetrics
  private readonly session = randomUUID()
  private readonly liveness = new Liveness()
  private readonly farewell: Farewell
  private readonly wants = new Map<string, Want>()
  /** Wanted no more, and not ended yet: until then nobody begins it, here or elsewhere. */
  private readonly leaving = new Map<string, Want>()
  private settings: ClusterSettings = { heartbeatMs: 5000, missedBeats: 2, addr: '', mode: 'data' }
  private registry: ClusterRegistry | undefined
  private shared = false
  private running = false
  private stopped = false
  private self: NodeRecord | undefined
  private ephemeral = false
  private superseded = false
  private draining = false
  /** When the newest beat was begun. */
  private beatAt = Number.NEGATIVE_INFINITY
  private said = ''
  private failing: string | undefined
  private last: Snapshot = { nodes: new Map(), leases: new Map() }
  private looking: Promise<void> | undefined
  private again = false
  private cancelLook: () => void = () => {}
  private cancelLoss: () => void = () => {}

  constructor(dependencies: ClusterDependencies) {
    this.dependencies = dependencies
    this.farewell = new Farewell(dependencies.clock, dependencies.graceMs)
    this.metrics = clusterMetrics(dependencies.metrics, () => ({
      nodes: this.running ? this.views(this.last).map(({ status }) => status) : [],
      owned: [...this.wants.values()].filter(({ token }) => token !== undefined).length,
      beatAgeMs: this.shared ? dependencies.clock.monotonic() - this.beatAt : 0,
    }))
  }

  /** In setup. */
  configure(settings: Partial<ClusterSettings>): void {
    this.settings = { ...this.settings, ...settings }
  }

  get nodeId(): number {
    return this.self?.node_id ?? this.settings.nodeId ?? 1
  }

  get isShared(): boolean {
    return this.shared
  }

  get isDraining(): boolean {
    return this.draining
  }

  notReady(): string | undefined {
    if (this.superseded) return `another process has started as node ${this.nodeId}: give each node a cluster.node_id of its own`
    return this.draining ? `node ${this.nodeId} is decommissioned` : undefined
  }

  private get timeoutMs(): number {
    return this.settings.heartbeatMs * this.settings.missedBeats
  }

  /** Once the storage is open. */
  async start(): Promise<void> {
    const state = this.dependencies.state()
    this.shared = state?.shared === true
    this.registry = state === undefined ? undefined : new ClusterRegistry(state.store)
    this.ephemeral = this.shared && this.settings.nodeId === undefined
    const id = this.settings.nodeId ?? (this.shared ? randomInt(1, 2 ** 31) : 1)
    if (this.shared) await this.join(id)
    else this.self = { ...this.describe(id), generation: 1, session: this.session, beat: 0, beat_at: 0, timeout_ms: this.timeoutMs, wants: [] }
    this.running = true
    await this.look()
    this.armLook()
  }

  /** Safe twice. What is owned has been given up by whoever wanted it; what was not is given up now. */
  async stop(): Promise<void> {
    if (!this.running || this.stopped) return
    this.stopped = true
    this.cancelLook()
    this.cancelLoss()
    await this.farewell.say(this.looking)
    await Promise.all([...this.wants.values()].map((want) => want.end()))
    if (this.shared && !this.superseded) await this.farewell.say(this.registry?.leave(this.nodeId, this.session))
  }

  /** Has work done here while this process owns it, until the function it returns is called, which gives it up. */
  want(work: string, run: OwnedWork, options: WantOptions = {}): () => Promise<void> {
    const { clock, log, graceMs } = this.dependencies
    if (this.wants.has(work)) throw new Error(`cannot own "${work}": there is work of that name already`)
    const want = new Want(work, run, options, { clock, log, graceMs, pauseMs: () => this.settings.heartbeatMs, remainingMs: () => this.remainingMs() })
    this.wants.set(work, want)
    if (this.running) this.soon()
    return async () => {
      if (this.wants.get(work) !== want) return
      this.wants.delete(work)
      if (want.token === undefined) return
      this.leaving.set(work, want)
      await this.giveUp(want, true)
      this.leaving.delete(work)
      if (this.wants.has(work)) this.soon()
    }
  }

  /** @returns the number of the turn; when it may begin instead; undefined when the work is another's. */
  async beginSlot(work: string, token: number, everyMs: number): Promise<{ number: number } | { notBefore: number } | undefined> {
    return this.registry?.beginSlot(work, token, everyMs, this.dependencies.clock.now())
  }

  async endSlot(work: string, token: number): Promise<boolean> {
    return (await this.registry?.endSlot(work, token)) ?? false
  }

  /** Milliseconds until work that takes turns is due, as whoever had it before has left it; undefined = it has had none. */
  async dueIn(work: string, everyMs: number): Promise<number | undefined> {
    const slot = await this.registry?.slot(work)
    return slot === undefined ? undefined : untilNext(slot, everyMs, this.dependencies.clock.now())
  }

  // For those who administer.

  async nodes(): Promise<NodeView[]> {
    return this.views(await this.snapshot())
  }

  async work(): Promise<WorkView[]> {
    const { nodes, leases } = await this.snapshot()
    if (!this.shared)
      return [...this.wants.values()]
        .flatMap(({ work, token }) => (token === undefined ? [] : [{ work, owner: this.nodeId, token, to: undefined }]))
        .sort(byWork)
    return [...leases].map(([work, lease]) => ({ work, owner: holderOf(lease, nodes, this.isAlive)?.node_id, token: lease.token, to: lease.to })).sort(byWork)
  }

  async register(given: NodeDescription): Promise<{ generation: number }> {
    const registry = this.requireRegistry()
    if (!this.shared && given.node_id === this.nodeId) return { generation: 1 }
    const { clock } = this.dependencies
    await this.snapshot()
    const record = await registry.register(given, clock.now(), this.timeoutMs, this.isAlive)
    this.soon()
    return record
  }

  async heartbeat(id: number, generation: number | undefined): Promise<void> {
    if (!this.shared && id === this.nodeId && (generation ?? 1) === 1) return
    await this.requireRegistry().heartbeat(id, generation, this.dependencies.clock.now())
  }

  async deregister(id: number): Promise<void> {
    if (id === this.nodeId) throw new SvcError('CONFLICT', `cannot deregister node ${id}: it is the node that answers; stop it, and ask another`)
    await this.snapshot()
    await this.requireRegistry().deregister(id, this.isAlive)
    this.soon()
  }

  /** Has a node give up its work and turn calls away. @throws NOT_FOUND, and CONFLICT for the last that could do its work. */
  async decommission(id: number): Promise<void> {
    const registry = this.requireRegistry()
    const { nodes } = await this.snapshot()
    await registry.decommission(id, (kept) => this.requireOthers(id, this.shared ? kept : nodes))
    await this.look()
  }

  /** @throws CONFLICT when nobody could take over what a node does. */
  private requireOthers(id: number, nodes: ReadonlyMap<number, NodeRecord>): void {
    const node = nodes.get(id)
    const others = candidatesOf(nodes, this.isAlive).filter(({ node_id }) => node_id !== id)
    if (node?.session !== undefined && this.isAlive(node) && others.length === 0)
      throw new SvcError(
        'CONFLICT',
        `cannot decommission node ${id}: it is the last that is active, and nobody could take its work over; start another first, or stop it`,
      )
  }

  /** Has owners hand work over until all have as much as each other. */
  async rebalance(): Promise<WorkMove[]> {
    const snapshot = await this.snapshot()
    if (!this.shared) return []
    const plan = this.planned(snapshot, moves)
    const reserved = await this.requireRegistry().reserve(plan)
    this.soon()
    return plan.filter(({ work }) => reserved.has(work))
  }

  /** Of all, by id, this node among them. Liveness is what this process sees. */
  private async snapshot(): Promise<Snapshot> {
    const { clock } = this.dependencies
    const began = clock.monotonic()
    const read = this.registry === undefined ? { nodes: new Map<number, NodeRecord>(), leases: new Map() } : await this.registry.read()
    if (!this.shared && this.self !== undefined) read.nodes.set(this.self.node_id, this.self)
    this.liveness.look([...read.nodes.values()], began, clock.monotonic())
    this.last = read
    return read
  }

  /** Nobody looks at the store of a node that is alone but callers: there the clock that has written a beat is the one that reads it. */
  private readonly isAlive = (node: NodeRecord): boolean => {
    if (this.shared) return this.liveness.isAlive(node)
    if (node.session !== undefined) return node.session === this.session
    return this.dependencies.clock.now() - node.beat_at <= node.timeout_ms
  }

  private views({ nodes, leases }: Snapshot): NodeView[] {
    return [...nodes.values()]
      .sort((a, b) => a.node_id - b.node_id)
      .map((node) => {
        const { node_id, addr, mode, disk_bytes, memory_bytes, cpu_cores, generation, beat_at } = node
        const isSelf = node.session === this.session
        const owned = [...leases].filter(([, lease]) => holds(lease, node)).map(([work]) => work)
        const work = this.shared ? owned.sort() : isSelf ? [...this.wants.keys()].filter((key) => this.wants.get(key)?.token !== undefined).sort() : []
        const view = { node_id, addr, mode, disk_bytes, memory_bytes, cpu_cores, generation, work, process: node.session !== undefined, self: isSelf }
        return { ...view, status: this.statusOf(node, work.length), lastHeartbeat: isSelf && !this.shared ? this.dependencies.clock.now() : beat_at }
      })
  }

  private statusOf(node: NodeRecord, owned: number): NodeStatus {
    if (node.stopped) return node.draining ? 'decommissioned' : 'stopped'
    const alive = this.isAlive(node)
    if (!node.draining) return alive ? 'active' : 'dead'
    // One that is silent and has not said so may be cut off from the state store only, and take calls.
    if (node.drained === false) return alive ? 'draining' : 'dead'
    return owned > 0 && alive ? 'draining' : 'decommissioned'
  }

  private requireRegistry(): ClusterRegistry {
    if (this.registry === undefined)
      throw new SvcError('METHOD_NOT_ALLOWED', 'cannot change the nodes of the cluster: this node keeps no state; name a [state] store')
    return this.registry
  }

  private describe(node_id: number): NodeDescription {
    const { addr, mode, diskBytes = 0, memoryBytes = 0, cpuCores = 0 } = this.settings
    return { node_id, addr, mode, disk_bytes: diskBytes, memory_bytes: memoryBytes, cpu_cores: cpuCores }
  }

  private async join(id: number): Promise<void> {
    const { clock } = this.dependencies
    const at = clock.monotonic()
    this.self = await (this.registry as ClusterRegistry).join(this.describe(id), this.saying(), this.ephemeral)
    this.beatAt = at
    this.armLoss()
    this.setDraining(this.self.draining === true)
  }

  private saying() {
    const wants = [...this.wants.values()]
      .filter(({ options }) => !options.everywhere)
      .map(({ work }) => work)
      .sort()
    const drained = this.draining && this.leaving.size === 0 && [...this.wants.values()].every(({ token }) => token === undefined)
    this.said = `${drained} ${wants.join('\n')}`
    return { session: this.session, wants, now: this.dependencies.clock.now(), timeoutMs: this.timeoutMs, drained }
  }

  private remainingMs(): number {
    return this.stopped ? 0 : Math.max(0, this.beatAt + this.timeoutMs - this.settings.heartbeatMs / 2 - this.dependencies.clock.monotonic())
  }

  /** Runs a look soon; several askers share one. */
  private soon(): void {
    this.dependencies.clock.after(0, () => void this.look())
  }

  private armLook(): void {
    // Alone there is nothing to look at: a node that rests rests.
    if (this.stopped || !this.shared) return
    const ms = this.failing === undefined ? this.settings.heartbeatMs / 2 : this.settings.heartbeatMs / RETRY_PART
    this.cancelLook = this.dependencies.clock.after(ms, () => void this.look().then(() => this.armLook()))
  }

  private look(): Promise<void> {
    if (this.stopped || !this.running) return Promise.resolve()
    if (this.looking !== undefined) {
      this.again = true
      return this.looking
    }
    this.looking = (async () => {
      do {
        this.again = false
        await this.lookOnce()
      } while (this.again && !this.stopped)
      this.looking = undefined
    })()
    return this.looking
  }

  /** Never rejects. */
  private async lookOnce(): Promise<void> {
    if (!this.shared) {
      for (const want of this.wants.values()) if (want.token === undefined && !this.leaving.has(want.work)) want.begin(0)
      return
    }
    try {
      await this.beatIfDue()
      if (this.superseded) return
      await this.act(await this.snapshot())
      if (this.failing !== undefined) this.dependencies.log.info('the state store is reached again: this node beats')
      this.failing = undefined
      this.farewell.reached()
    } catch (err) {
      this.metrics.failures.inc()
      const text = String((err as Error)?.message ?? err)
      if (this.failing !== text)
        this.dependencies.log.warn({ err }, 'cannot beat: the state store is not reached; what this node owns is given up unless it is soon')
      this.failing = text
    }
  }

  private async beatIfDue(): Promise<void> {
    const at = this.dependencies.clock.monotonic()
    const before = this.said
    const saying = this.saying()
    if (this.said === before && at - this.beatAt < this.settings.heartbeatMs * 0.75) return
    const record = await (this.registry as ClusterRegistry).beat(this.nodeId, saying)
    if (record === undefined) return this.replaced()
    this.self = record
    this.beatAt = at
    this.armLoss()
  }

  private armLoss(): void {
    const { clock, log } = this.dependencies
    this.cancelLoss()
    this.cancelLoss = clock.after(this.remainingMs(), () => {
      if (this.stopped) return
      // Timers of Node.js go off up to a millisecond early.
      if (this.remainingMs() > 0) return this.armLoss()
      const owned = [...this.wants.values()].filter(({ token, options, ending }) => token !== undefined && !options.everywhere && !ending)
      if (owned.length > 0) log.warn({ work: owned.length }, 'this node could not beat in time: it stops the work that it owns, which others take over')
      for (const want of owned) void this.lose(want)
    })
  }

  /** The record is another process's, or was removed because this one seemed dead. */
  private async replaced(): Promise<void> {
    const { log } = this.dependencies
    const nodes = (await (this.registry as ClusterRegistry).read()).nodes
    for (const want of this.wants.values()) void this.lose(want)
    if (nodes.get(this.nodeId)?.session === undefined) {
      log.warn({ node_id: this.nodeId }, 'this node was deregistered while it could not beat: it joins anew')
      return this.join(this.nodeId)
    }
    this.superseded = true
    log.error(
      { node_id: this.nodeId },
      'another process has started under the id of this node: this one does no more work that is shared; give each a cluster.node_id of its own',
    )
  }

  private setDraining(draining: boolean): void {
    if (draining === this.draining) return
    this.draining = draining
    const { log, turnAway } = this.dependencies
    const id = this.nodeId
    if (draining) log.warn({ node_id: id }, 'this node is decommissioned: it hands its work over and turns calls away')
    else log.info({ node_id: id }, 'this node is back: it takes work and calls')
    const text = `cannot take calls on node ${id}: it is decommissioned; send them to another, which GET /api/v1/admin/topology on any of them lists`
    turnAway(draining ? new SvcError('OVERLOADED', text, { headers: { 'retry-after': '5' } }) : undefined)
  }

  /** Brings what runs here in line with what is kept. */
  private async act(snapshot: Snapshot): Promise<void> {
    const { nodes, leases } = snapshot
    const self = this.self as NodeRecord
    const kept = nodes.get(self.node_id)
    if (kept?.session === this.session) this.setDraining(kept.draining === true)
    const plan = this.draining ? new Map<string, number>() : this.planned(snapshot, takers)
    const free: Takeable[] = []
    for (const want of this.wants.values()) {
      if (want.ending || this.leaving.has(want.work)) continue
      const lease = leases.get(want.work)
      if (want.options.everywhere) this.actEverywhere(want)
      else if (want.token !== undefined) this.actOnHeld(want, lease, self)
      else if (this.mayTake(want, lease, self, snapshot, plan)) free.push({ work: want.work, seen: lease, ownerBeat: ownerOf(lease, nodes)?.beat })
    }
    for (const [work, lease] of leases) if (holds(lease, self) && !this.wants.has(work) && !this.leaving.has(work)) void this.release(work, lease.token)
    await this.take(free)
    await this.forget(nodes)
  }

  private actEverywhere(want: Want): void {
    if (this.draining) void this.giveUp(want)
    else if (want.token === undefined) want.begin(0)
  }

  private actOnHeld(want: Want, lease: LeaseRecord | undefined, self: NodeRecord): void {
    if (lease === undefined || !holds(lease, self) || lease.token !== want.token) void this.lose(want)
    else if (this.draining || (lease.to !== undefined && lease.to !== self.node_id)) void this.giveUp(want)
  }

  /** Of work that does not run here. A lease that is kept here all the same, and is to be another's, is released. */
  private mayTake(want: Want, lease: LeaseRecord | undefined, self: NodeRecord, snapshot: Snapshot, plan: ReadonlyMap<string, number>): boolean {
    const mine = lease !== undefined && holds(lease, self)
    if (mine && (this.draining || (lease.to !== undefined && lease.to !== self.node_id && snapshot.nodes.has(lease.to)))) {
      void this.release(want.work, lease.token)
      return false
    }
    if (this.draining) return false
    if (!mine && holderOf(lease, snapshot.nodes, this.isAlive) !== undefined) {
      want.freeSince = undefined
      return false
    }
    const now = this.dependencies.clock.monotonic()
    want.freeSince ??= now
    // Whoever was to take it may not have what it needs: after a while anybody does.
    const passed = now - want.freeSince > this.settings.heartbeatMs
    return mine || passed || plan.get(want.work) === self.node_id
  }

  private async take(free: readonly Takeable[]): Promise<void> {
    if (free.length === 0) return
    const { node_id: id, generation } = this.self as NodeRecord
    const taken = await (this.registry as ClusterRegistry).take(id, generation, free).catch(() => new Map<string, number>()) // the next look tries again
    for (const { work, seen } of free) {
      const token = taken.get(work)
      const want = this.wants.get(work)
      if (token === undefined) continue
      if (seen?.owner !== undefined && seen.owner !== id) this.metrics.takeovers.inc()
      if (want === undefined || want.token !== undefined || this.draining || this.stopped) await this.release(work, token)
      // An answer that was long under way: others may take the work by now, and nothing would end it here. The next look takes it anew.
      else if (this.remainingMs() > 0) want.begin(token)
    }
  }

  /** Ends what another has, or may have. */
  private async lose(want: Want): Promise<void> {
    if (want.token === undefined || want.ending) return
    this.metrics.lost.inc()
    await want.end()
  }

  /** Ends what is to go to another, then lets go. */
  private async giveUp(want: Want, leaving = false): Promise<void> {
    const { token } = want
    if (token === undefined) return
    await want.end(leaving ? false : want.options.unbounded === true)
    if (token === 0) return
    await (leaving ? this.farewell.say(this.release(want.work, token)) : this.release(want.work, token))
    if (!leaving && !this.stopped) this.soon()
  }

  private async release(work: string, token: number): Promise<void> {
    await this.registry?.release(work, token).catch(() => {}) // the next look tries again
  }

  private async forget(nodes: Snapshot['nodes']): Promise<void> {
    for (const node of nodes.values())
      if (node.ephemeral && this.liveness.silentMs(node.node_id) > node.timeout_ms * FORGET_TIMEOUTS)
        await this.registry?.deregister(node.node_id, ({ beat, session }) => beat !== node.beat || session !== node.session).catch(() => {})
  }

  private planned<P>(snapshot: Snapshot, plan: (all: Placed[], candidates: Candidate[]) => P): P {
    return plan(placedOf(snapshot, this.isAlive), candidatesOf(snapshot.nodes, this.isAlive))
  }
}

const byWork = (a: WorkView, b: WorkView): number => (a.work < b.work ? -1 : 1)
