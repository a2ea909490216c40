/** All namespaces' triggers: makes, changes and drops them, and has the writes of those that have some judged. */
import { randomUUID } from 'node:crypto'
import type { ChangePosition, Clock, Following, Logger, Storage, WebhookRef, Webhooks } from 'svcdb'
import { historyOf } from 'svcdb/lib/changes'
import { SvcError } from 'svcdb/lib/errors'
import { type Channels, endpointName, webhookNamespace } from './channels.ts'
import type { TriggersConfig } from './config.ts'
import { Scratch } from './evaluate/scratch.ts'
import { FactsBudget } from './evaluate/series-facts.ts'
import type { Place } from './keys.ts'
import type { TriggersMetrics } from './metrics.ts'
import { Share } from './share.ts'
import type { Signal } from './signal.ts'
import type { CreateTrigger } from './statement/parse.ts'
import { type KeptTenant, Store } from './store.ts'
import { Tenant } from './tenant.ts'
import { made, type Trigger, triggerOf } from './trigger.ts'
import { Watcher } from './watcher.ts'

interface EngineOptions {
  id: string
  config: TriggersConfig
  storage(): Storage
  webhooks(): Webhooks | undefined
  channels: Channels
  metrics: TriggersMetrics
  log: Logger
  clock: Clock
  publish(tenant: Tenant, signals: readonly Signal[]): void
}

/** Places that are moved on in one transaction. */
const PLACES = 200
/** Of composites that name none, nanoseconds. */
const COMPOSITE_COOLDOWN = 60_000_000_000n

export class Engine {
  private readonly options: EngineOptions
  private readonly tenants = new Map<string, Tenant>()
  private readonly watchers = new Map<string, Watcher>()
  private readonly shared = { scratch: new Scratch(), facts: new FactsBudget() }
  private readonly share: Share
  /** The last change of definitions of each namespace: one after the other. */
  private readonly last = new Map<string, Promise<unknown>>()
  private opened: Store | undefined
  /** Where the changes ended when the process began: before anything could be written. */
  private begun: ChangePosition | undefined
  private following: Following | undefined
  private stopping = false
  /** What is left of triggers that are gone and could not be taken away, for want of room say. */
  private left: (() => Promise<void>)[] = []

  constructor(options: EngineOptions) {
    this.options = options
    this.share = new Share(options.config.processor_share, options.clock, (seconds) => options.metrics.seconds.inc(seconds))
  }

  get store(): Store {
    if (this.opened === undefined) throw new SvcError('DATABASE_CLOSED', 'triggers are not read yet; retry when /ready answers 200')
    return this.opened
  }

  /** Call before anything is written: where nothing is known, judging begins here. */
  async prepare(): Promise<void> {
    this.begun = await this.now('')
  }

  /** Reads what is kept, and begins to judge. */
  async start(): Promise<void> {
    this.begun ??= await this.now('')
    const store = this.storeFrom(this.begun)
    const failed = (err: Error): void => this.options.log.warn({ err }, 'cannot read what other nodes have changed of triggers; it is tried again')
    this.following = await store.follow((changed) => this.takeUp(store, changed), failed)
  }

  async stop(): Promise<void> {
    await this.following?.stop()
    this.stopping = true
    await Promise.all([...this.last.values()])
    await Promise.all([...this.watchers.values()].map((watcher) => watcher.stop()))
    this.watchers.clear()
  }

  counts(): { enabled: number; disabled: number } {
    let [enabled, all] = [0, 0]
    for (const tenant of this.tenants.values()) {
      enabled += tenant.enabled
      all += tenant.triggers.size
    }
    return { enabled, disabled: all - enabled }
  }

  get cooldowns(): number {
    let sum = 0
    for (const { cooldowns } of this.tenants.values()) sum += cooldowns.size
    return sum
  }

  get behind(): number {
    let most = 0
    for (const { behind } of this.watchers.values()) most = Math.max(most, behind)
    return most
  }

  /** By name. */
  list(namespace: string): Trigger[] {
    const triggers = [...(this.tenants.get(namespace)?.triggers.values() ?? [])]
    return triggers.sort((a, b) => (a.name < b.name ? -1 : 1))
  }

  get(namespace: string, name: string): Trigger | undefined {
    return this.tenants.get(namespace)?.triggers.get(name)
  }

  /** @throws CONFLICT for a name that is taken, RATE_LIMITED when there are as many as may be, BAD_REQUEST for a URL that may not be one. */
  create(namespace: string, statement: CreateTrigger): Promise<Trigger> {
    return this.oneByOne(namespace, async () => {
      this.requireRoom(namespace, statement)
      const tenant = await this.known(namespace)
      requireMembers(tenant, statement)
      const { default_cooldown_secs } = this.options.config
      const cooldown = statement.cooldown ?? (statement.condition.kind === 'signals' ? COMPOSITE_COOLDOWN : BigInt(Math.round(default_cooldown_secs * 1e9)))
      const id = randomUUID()
      const after = await this.now(namespace)
      const trigger = made(statement, { id, cooldown: String(cooldown), enabled: true, after, created_at: this.options.clock.now() })
      try {
        await this.define(namespace, trigger)
        // Nothing was judged lately: what is written from now on is.
        const begins = this.watchers.has(namespace) ? undefined : beginningAt(tenant, after)
        if (!(await this.store.create(namespace, trigger, begins))) throw taken(trigger.name)
        if (begins !== undefined) tenant.place = begins
        tenant.add(trigger)
        this.watch(tenant)
        return trigger
      } catch (error) {
        const undo = (): Promise<void> => this.undo(namespace, trigger)
        await this.takeAway(undo, () => this.oneByOne(namespace, undo))
        throw error
      }
    })
  }

  /** Of a trigger that could not be made. One of which only the answer was lost is there. */
  private async undo(namespace: string, trigger: Trigger): Promise<void> {
    const found = await this.store.trigger(namespace, trigger.name)
    if (found?.kept.id === trigger.id) await this.takeUpOf(namespace, [trigger.name])
    else await this.undefine(namespace, trigger)
  }

  /** @throws BAD_REQUEST when there is none. */
  alter(namespace: string, name: string, enabled: boolean): Promise<void> {
    return this.oneByOne(namespace, async () => {
      const tenant = this.tenant(namespace)
      const trigger = this.require(namespace, name, 'alter')
      if (trigger.enabled === enabled) return
      const after = enabled ? await this.now(namespace) : trigger.after
      const begins = enabled && !this.watchers.has(namespace) ? beginningAt(tenant, after) : undefined
      const enabledAt = enabled ? this.options.clock.now() : trigger.enabledAt
      if (!(await this.store.update(namespace, [{ ...trigger, enabled, after, enabledAt }], begins))) throw unknown(name, 'alter')
      if (begins !== undefined) tenant.place = begins
      const current = tenant.byId.get(trigger.id) ?? trigger
      current.enabled = enabled
      current.after = after
      current.enabledAt = enabledAt
      // What is being read may be from before.
      tenant.generation++
      if (enabled) this.watch(tenant)
      else await this.unwatchIfIdle(tenant)
    })
  }

  /** @throws BAD_REQUEST when there is none. */
  drop(namespace: string, name: string): Promise<void> {
    return this.oneByOne(namespace, async () => {
      const tenant = this.tenant(namespace)
      const trigger = this.require(namespace, name, 'drop')
      await this.store.drop(namespace, trigger)
      tenant.remove(trigger)
      this.watchers.get(namespace)?.select()
      await this.unwatchIfIdle(tenant)
      // What was under way may have committed cooldowns of it.
      await this.watchers.get(namespace)?.settled()
      const cooldowns = tenant.cooldowns.drop(trigger.id)
      await this.takeAway(() => this.store.forget(namespace, cooldowns))
      await this.takeAway(() => this.undefine(namespace, trigger))
    })
  }

  /** Everything of a namespace that is deleted. */
  forget(namespace: string): Promise<void> {
    return this.oneByOne(namespace, async () => {
      // In the start phase nothing is read yet; webhooks without a trigger go when it is.
      if (this.opened === undefined) return this.storeFrom(this.begun ?? (await this.now(''))).clear(namespace)
      const tenant = this.tenants.get(namespace)
      await this.watchers.get(namespace)?.stop()
      this.watchers.delete(namespace)
      for (const trigger of tenant?.triggers.values() ?? []) await this.undefine(namespace, trigger)
      tenant?.clear()
      this.tenants.delete(namespace)
      await this.store.clear(namespace)
    })
  }

  /** Has places of namespaces without signals follow, so that a start does not look at what is long past, and takes away what is left of triggers that are gone. */
  async rest(): Promise<void> {
    for (const work of this.left.splice(0)) await work().catch(() => this.left.push(work))
    const watchers = [...this.watchers.values()]
    for (let at = 0; at < watchers.length; at += PLACES) {
      const resting: { watcher: Watcher; place: Place }[] = []
      for (const watcher of watchers.slice(at, at + PLACES)) {
        const place = await watcher.restingPlace()
        if (place !== undefined) resting.push({ watcher, place })
      }
      const { promise, resolve } = Promise.withResolvers<void>()
      const held = resting.filter(({ watcher, place }) => watcher.hold(place, promise))
      try {
        const moved =
          held.length === 0 ? new Set() : await this.store.move(held.map(({ watcher: { tenant }, place }) => ({ namespace: tenant.namespace, place })))
        for (const { watcher, place } of held) if (moved.has(watcher.tenant.namespace)) watcher.tenant.place = place
      } finally {
        resolve()
      }
    }
  }

  private storeFrom(begun: ChangePosition): Store {
    const storage = this.options.storage()
    return new Store(storage.state(this.options.id), storage.capabilities.has('shared_state'), historyOf(begun))
  }

  private async takeUp(store: Store, changed: ReadonlyMap<string, readonly string[]> | undefined): Promise<void> {
    if (this.opened === undefined) return this.readAll(store)
    const namespaces = changed?.keys() ?? new Set([...(await store.namespaces()), ...this.tenants.keys()])
    for (const namespace of namespaces) await this.oneByOne(namespace, () => this.takeUpOf(namespace, changed?.get(namespace)))
  }

  private async readAll(store: Store): Promise<void> {
    // Before the triggers: one that another node makes meanwhile has endpoints of which nothing is known here yet.
    const endpoints = (await this.options.webhooks()?.list(this.options.id)) ?? []
    for (const namespace of await store.namespaces()) {
      const kept = await store.read(namespace, this.unreadable)
      await this.settle(store, namespace, kept, this.begun as ChangePosition)
      this.tenant(namespace).become(kept)
      // A start on a full disk goes on without.
      await this.takeAway(() => store.deleteOrphans(namespace, kept))
    }
    this.opened = store
    await this.takeAway(() => this.removeUnused(endpoints))
    this.warnOfUndelivered()
    for (const tenant of this.tenants.values()) if (tenant.enabled > 0) this.watch(tenant)
  }

  /**
   * Has what is not placed in the log of changes of this node begin at a position: triggers that another node has made or enabled, and all of a namespace that was never
   * judged here, or is placed behind the end of a log that was cut. @param moves the place is moved there in any case: nothing was judged lately.
   */
  private async settle(store: Store, namespace: string, kept: KeptTenant, position: ChangePosition, moves = false): Promise<void> {
    const { place, triggers, unplaced } = kept
    if (!triggers.some(({ enabled }) => enabled)) return
    const begun = [...unplaced, ...triggers.filter(({ enabled, after }) => enabled && after > position)]
    for (const trigger of begun) trigger.after = position
    const anew = place === undefined || place.position > position || (moves && place.position !== position)
    if (!anew && begun.length === 0) return
    if (anew) {
      const { handed, until } = place ?? (await store.left(namespace))
      kept.place = { version: (place?.version ?? 0) + 1, position, handed, until, caught_up: this.options.clock.now() }
    }
    await store.begin(namespace, anew ? kept.place : undefined, begun)
  }

  /** What other nodes have made of a namespace's triggers. @param names undefined = of all. */
  private async takeUpOf(namespace: string, names: readonly string[] | undefined): Promise<void> {
    const tenant = this.tenant(namespace)
    if (!this.watchers.has(namespace)) {
      const kept = await this.store.read(namespace, this.unreadable)
      await this.settle(this.store, namespace, kept, await this.now(namespace), true)
      tenant.become(kept)
    } else for (const name of names ?? new Set([...(await this.store.names(namespace)), ...tenant.triggers.keys()])) await this.takeUpOne(tenant, name)
    if (tenant.enabled > 0) this.watch(tenant)
    else await this.unwatchIfIdle(tenant)
  }

  private async takeUpOne(tenant: Tenant, name: string): Promise<void> {
    const found = await this.store.trigger(tenant.namespace, name)
    const known = tenant.triggers.get(name)
    if (known !== undefined && known.id !== found?.kept.id) {
      tenant.remove(known)
      tenant.cooldowns.drop(known.id)
    }
    if (found === undefined) return
    const { kept } = found
    const enabledAt = kept.enabled_at ?? kept.created_at
    let { after = '' } = found
    if (kept.enabled && found.after === undefined) {
      after = await this.now(tenant.namespace)
      await this.store.begin(tenant.namespace, undefined, [{ id: kept.id, after, enabledAt }])
    }
    try {
      const trigger = tenant.byId.get(kept.id) ?? triggerOf(kept)
      Object.assign(trigger, { enabled: kept.enabled, after, enabledAt })
      tenant.generation++
      if (!tenant.byId.has(kept.id)) tenant.add(trigger)
    } catch (error) {
      this.unreadable(name, error)
    }
  }

  /** Where the changes of a namespace end. */
  private async now(namespace: string): Promise<ChangePosition> {
    const cursor = this.options.storage().changes({ namespace, kinds: [] })
    try {
      return await cursor.position()
    } finally {
      cursor.close()
    }
  }

  private tenant(namespace: string): Tenant {
    let tenant = this.tenants.get(namespace)
    if (tenant === undefined) {
      const { max_cooldowns, max_cooldowns_per_namespace, max_composite_groups_per_namespace } = this.options.config
      const most = (): number => Math.min(max_cooldowns_per_namespace, Math.floor(max_cooldowns / Math.max(1, this.watchers.size)))
      this.tenants.set(namespace, (tenant = new Tenant(namespace, this.shared, most, max_composite_groups_per_namespace)))
    }
    return tenant
  }

  /** With what it has left behind, if it had triggers before. */
  private async known(namespace: string): Promise<Tenant> {
    const known = this.tenants.get(namespace)
    if (known !== undefined) return known
    const kept = await this.store.read(namespace, this.unreadable)
    const tenant = this.tenant(namespace)
    tenant.become(kept)
    return tenant
  }

  private watch(tenant: Tenant): void {
    const { namespace } = tenant
    const known = this.watchers.get(namespace)
    if (known !== undefined) return known.select()
    if (this.stopping) return
    const { storage, metrics, log, config, channels, publish } = this.options
    const watcher = new Watcher(tenant, {
      storage,
      store: this.store,
      share: this.share,
      clock: this.options.clock,
      lookback: BigInt(config.gap_lookback_secs) * 1_000_000_000n,
      metrics,
      log,
      tagBytes: config.max_signal_tag_bytes,
      thresholds: { warning: config.warning_value, critical: config.critical_value },
      capacity: config.signal_store_capacity,
      publish,
      handOver: (of, signals) => channels.handOver(of, signals),
      reload: (of) => this.reload(of),
    })
    this.watchers.set(namespace, watcher)
    watcher.start()
  }

  private async reload(tenant: Tenant): Promise<void> {
    for (;;) {
      const { generation, namespace } = tenant
      this.store.history = historyOf(await this.now(namespace))
      const kept = await this.store.read(namespace, this.unreadable)
      // Taken behind all that was read.
      await this.settle(this.store, namespace, kept, await this.now(namespace))
      // Made or dropped meanwhile: what was read may be from before.
      if (tenant.generation === generation) return tenant.become(kept)
    }
  }

  private async unwatchIfIdle(tenant: Tenant): Promise<void> {
    if (tenant.enabled > 0) return
    const watcher = this.watchers.get(tenant.namespace)
    await watcher?.stop()
    this.watchers.delete(tenant.namespace)
  }

  private requireRoom(namespace: string, { name, measurement, condition }: CreateTrigger): void {
    const { config } = this.options
    const tenant = this.tenants.get(namespace)
    if (tenant?.triggers.has(name)) throw taken(name)
    const full = (what: string, limit: number, setting: string): SvcError =>
      new SvcError('RATE_LIMITED', `cannot create trigger "${name}": ${what} ${limit} already; drop one, or raise triggers.${setting}`)
    const { enabled, disabled } = this.counts()
    if (enabled + disabled >= config.max_triggers) throw full('the server has', config.max_triggers, 'max_triggers')
    if ((tenant?.triggers.size ?? 0) >= config.max_triggers_per_namespace)
      throw full('the namespace has', config.max_triggers_per_namespace, 'max_triggers_per_namespace')
    if (condition.kind === 'signals') {
      if ((tenant?.composites.size ?? 0) >= config.max_composites_per_namespace)
        throw full('composites of the namespace are', config.max_composites_per_namespace, 'max_composites_per_namespace')
    } else if ((tenant?.on(measurement).length ?? 0) >= config.max_triggers_per_measurement)
      throw full(`measurement "${measurement}" has`, config.max_triggers_per_measurement, 'max_triggers_per_measurement')
  }

  private require(namespace: string, name: string, verb: string): Trigger {
    const trigger = this.get(namespace, name)
    if (trigger === undefined) throw unknown(name, verb)
    return trigger
  }

  /** Makes the endpoints of its webhooks: before the trigger is committed, so that none is without. */
  private async define(namespace: string, trigger: Trigger): Promise<void> {
    for (const [i, channel] of trigger.delivery.entries()) {
      if (channel.kind !== 'webhook') continue
      const webhooks = this.options.webhooks()
      if (webhooks === undefined)
        throw new SvcError('BAD_REQUEST', `cannot deliver to ${JSON.stringify(channel.url)}: the plugin webhooks is not selected; add it to plugins`)
      await webhooks.define({ owner: this.options.id, namespace: webhookNamespace(namespace), name: endpointName(trigger, i) }, channel.url)
    }
  }

  private async undefine(namespace: string, trigger: Trigger): Promise<void> {
    for (const [i, channel] of trigger.delivery.entries()) {
      if (channel.kind !== 'webhook') continue
      await this.options.webhooks()?.remove({ owner: this.options.id, namespace: webhookNamespace(namespace), name: endpointName(trigger, i) })
    }
  }

  private warnOfUndelivered(): void {
    if (this.options.webhooks() !== undefined) return
    let triggers = 0
    for (const tenant of this.tenants.values())
      for (const { enabled, delivery } of tenant.triggers.values()) if (enabled && delivery.some(({ kind }) => kind === 'webhook')) triggers++
    if (triggers > 0)
      this.options.log.warn(
        { triggers },
        'triggers deliver to webhooks, and the plugin webhooks is not selected: what fires is kept and shown, and not delivered, also not later; add it to plugins, or disable them',
      )
  }

  /** Those of triggers that were dropped, or never made, when the process was killed. */
  private async removeUnused(endpoints: readonly WebhookRef[]): Promise<void> {
    const used = new Set<string>()
    for (const { namespace, triggers } of this.tenants.values())
      for (const trigger of triggers.values()) for (const i of trigger.delivery.keys()) used.add(`${webhookNamespace(namespace)}/${endpointName(trigger, i)}`)
    for (const { namespace, name } of endpoints)
      if (!used.has(`${namespace}/${name}`)) await this.options.webhooks()?.remove({ owner: this.options.id, namespace, name })
  }

  /** A trigger that is gone is so whether this works or not: then it is tried again, by `rest` and by the next start. Never rejects. @param again how. */
  private async takeAway(work: () => Promise<void>, again = work): Promise<void> {
    try {
      await work()
    } catch (err) {
      this.options.log.warn({ err }, 'cannot take away what is left of triggers that are gone; it is tried again')
      this.left.push(again)
    }
  }

  private oneByOne<T>(namespace: string, work: () => Promise<T>): Promise<T> {
    if (this.stopping) return Promise.reject(new SvcError('DATABASE_CLOSED', 'the server is stopping; retry after the restart'))
    const result = (this.last.get(namespace) ?? Promise.resolve()).then(work)
    const settled: Promise<unknown> = result
      .catch(() => {})
      .then(() => {
        if (this.last.get(namespace) === settled) this.last.delete(namespace)
      })
    this.last.set(namespace, settled)
    return result
  }

  private readonly unreadable = (key: string, error: unknown): void => {
    this.options.log.error({ err: error, key }, 'cannot read a trigger: it is kept and does nothing')
  }
}

function beginningAt({ place: { partial: _, ...place }, handed }: Tenant, position: ChangePosition): Place {
  return { ...place, version: place.version + 1, position, handed: Math.max(place.handed, handed) }
}

/** Composites are of triggers that are there, and judge points. */
function requireMembers({ triggers }: Tenant, { name, condition }: CreateTrigger): void {
  if (condition.kind !== 'signals') return
  for (const member of condition.members) {
    const known = triggers.get(member)
    const cause =
      known === undefined ? 'is not there; create it first' : known.condition.kind === 'signals' ? 'is a composite itself; name its members' : undefined
    if (cause !== undefined) throw new SvcError('BAD_REQUEST', `cannot create trigger "${name}": trigger "${member}" ${cause}`)
  }
}

function unknown(name: string, verb: string): SvcError {
  return new SvcError('BAD_REQUEST', `cannot ${verb} trigger "${name}": there is none of this name; SHOW TRIGGERS lists those there are`)
}

function taken(name: string): SvcError {
  return new SvcError('CONFLICT', `cannot create trigger "${name}": there is one of this name; DROP TRIGGER ${name} first, or choose another name`)
}
