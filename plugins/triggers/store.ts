/** What triggers keep in the state store, and how it is read and committed. */
import { type ChangePosition, type Following, followState, type StateEntry, type StateStore, type StateTransaction } from 'svcdb'
import { historyOf } from 'svcdb/lib/changes'
import type { KeptSpans } from './cooldown/spans.ts'
import { type After, type FormerPlace, keysOf, type Place, partsOf, type Ring, TRIGGERS } from './keys.ts'
import type { Signal } from './signal.ts'
import type { Pending, Tenant } from './tenant.ts'
import { type KeptTrigger, keptOf, type Trigger, triggerOf } from './trigger.ts'

/** Entries that are read or deleted at once. */
const PAGE = 500
/** Signals that a commit may delete beyond as many as it adds: when fewer are to be kept than before, it may be about a million. */
const EVICTED = 1000
/** Signals that composites remember after a start. */
const RECENT = 1000

/** Another process has judged the same: what this one has found is void. */
export class RivalError extends Error {}

/** How far a commit goes. */
export type Judged = Pick<Place, 'position' | 'partial' | 'caught_up'>

export interface KeptCooldown {
  entry: string
  trigger: Trigger
  spans: KeptSpans
}

/** A namespace as it is kept. */
export interface KeptTenant {
  ring: Ring | undefined
  /** Of the history that is judged here. */
  place: Place | undefined
  triggers: Trigger[]
  /** Those of them that are enabled, and of which it is not known from where on they judge here. */
  unplaced: Trigger[]
  cooldowns: KeptCooldown[]
  /** The newest signals, oldest first, where composites have to remember them. */
  recent: Signal[]
  /** Keys of what belongs to no trigger. */
  orphans: string[]
}

export class Store {
  /** The one that is judged here. */
  history: string
  private readonly state: StateStore
  /** Other nodes may have their places in it. */
  private readonly shared: boolean

  constructor(state: StateStore, shared: boolean, history: string) {
    this.state = state
    this.shared = shared
    this.history = history
  }

  /** Has all read, and then which triggers other nodes make, change and drop: names by namespace. @param apply undefined = all. */
  follow(apply: (changed: ReadonlyMap<string, readonly string[]> | undefined) => Promise<void>, failed: (error: Error) => void): Promise<Following> {
    return followState(this.state, {
      prefixes: [TRIGGERS],
      failed,
      apply(keys) {
        if (keys === undefined) return apply(undefined)
        const changed = new Map<string, string[]>()
        for (const key of keys) {
          const { namespace, rest } = partsOf(key)
          changed.set(namespace, [...(changed.get(namespace) ?? []), rest])
        }
        return apply(changed)
      },
    })
  }

  /** @returns a definition, and from where on it judges here, as far as that is known. */
  async trigger(namespace: string, name: string): Promise<{ kept: KeptTrigger; after: ChangePosition | undefined } | undefined> {
    const keys = keysOf(namespace)
    const kept = await this.state.get<KeptTrigger>(keys.trigger(name))
    return kept === undefined ? undefined : { kept, after: this.afterOf(kept, await this.state.get<After>(keys.after(kept.id, this.history))) }
  }

  private afterOf({ after, created_at, enabled_at = created_at }: KeptTrigger, own: After | undefined): ChangePosition | undefined {
    if (own?.enabled_at === enabled_at) return own.position
    return historyOf(after) === this.history || (after === '' && !this.shared) ? after : undefined
  }

  /** Names of a namespace's triggers. */
  async names(namespace: string): Promise<string[]> {
    const found: string[] = []
    for await (const { key } of this.all(keysOf(namespace).triggers)) found.push(partsOf(key).rest)
    return found
  }

  /** Namespaces that have triggers. */
  async namespaces(): Promise<string[]> {
    const found: string[] = []
    for (let start = TRIGGERS; ; ) {
      const [entry] = await this.state.list<KeptTrigger>({ prefix: TRIGGERS, start, limit: 1 })
      if (entry === undefined) return found
      const { namespace } = partsOf(entry.key)
      found.push(namespace)
      // "0" follows "/".
      start = `${TRIGGERS}${namespace}0`
    }
  }

  /** Reads all of a namespace, but for its signals. @param unreadable called for a trigger that cannot be understood. */
  async read(namespace: string, unreadable: (key: string, error: unknown) => void): Promise<KeptTenant> {
    const keys = keysOf(namespace)
    const ring = await this.state.get<Ring & Partial<FormerPlace>>(keys.ring)
    const place = (await this.state.get<Place>(keys.place(this.history))) ?? this.former(ring)
    const triggers = new Map<string, Trigger>()
    const definitions: KeptTrigger[] = []
    for await (const { key, value } of this.all<KeptTrigger>(keys.triggers)) {
      try {
        triggers.set(value.id, triggerOf(value))
        definitions.push(value)
      } catch (error) {
        unreadable(key, error)
      }
    }
    const orphans: string[] = []
    const afters = new Map<string, After>()
    for await (const { key, value } of this.all<After>(keys.afters)) {
      const [id, history] = key.slice(keys.afters.length).split('/')
      if (!triggers.has(id)) orphans.push(key)
      else if (history === this.history) afters.set(id, value)
    }
    const unplaced: Trigger[] = []
    for (const kept of definitions) {
      const trigger = triggers.get(kept.id) as Trigger
      const after = this.afterOf(kept, afters.get(kept.id))
      trigger.after = after ?? ''
      if (after === undefined && trigger.enabled) unplaced.push(trigger)
    }
    for await (const { key, value } of this.all<string>(keys.floors)) {
      const trigger = triggers.get(key.slice(keys.floors.length))
      if (trigger === undefined) orphans.push(key)
      else trigger.floor = BigInt(value)
    }
    const cooldowns: KeptCooldown[] = []
    for await (const { key, value } of this.all<KeptSpans>(keys.cooldowns)) {
      const entry = key.slice(keys.cooldowns.length)
      const trigger = triggers.get(entry.slice(0, entry.indexOf('/')))
      if (trigger === undefined) orphans.push(key)
      else cooldowns.push({ entry, trigger, spans: value })
    }
    const wanted = [...triggers.values()].some(({ condition }) => condition.kind === 'signals')
    const recent = wanted && ring !== undefined ? await this.signals(namespace, Math.max(ring.first, ring.next - RECENT), ring.next, RECENT) : []
    return { ring, place, triggers: [...triggers.values()], unplaced, cooldowns, orphans, recent }
  }

  /** From before nodes had places of their own. */
  private former(ring: (Ring & Partial<FormerPlace>) | undefined): Place | undefined {
    if (ring?.position === undefined || historyOf(ring.position) !== this.history) return undefined
    const { position, partial, handed = ring.next, caught_up, next } = ring
    return { version: 0, position, ...(partial === undefined ? {} : { partial }), handed, until: next, ...(caught_up === undefined ? {} : { caught_up }) }
  }

  /**
   * Signals of a namespace without a place here that were not handed over, such as one that was restored from a backup: where no other node can have found them, it is
   * for this one to hand them over.
   */
  async left(namespace: string): Promise<Pick<Place, 'handed' | 'until'>> {
    const none = { handed: 0, until: 0 }
    if (this.shared) return none
    const keys = keysOf(namespace)
    const ring = await this.state.get<Ring & Partial<FormerPlace>>(keys.ring)
    const places = (await this.state.list<Place>({ prefix: keys.places, limit: PAGE })).map(({ value: { handed, until } }) => ({ handed, until }))
    if (ring?.handed !== undefined) places.push({ handed: ring.handed, until: ring.next })
    return places.reduce((newest, each) => (each.until > newest.until ? each : newest), none)
  }

  /** What a drop was kept from deleting. */
  async deleteOrphans(namespace: string, { orphans }: KeptTenant): Promise<void> {
    if (orphans.length === 0) return
    // Of a trigger that another node has made meanwhile it is none.
    const ids = new Set<string>()
    for await (const { value } of this.all<KeptTrigger>(keysOf(namespace).triggers)) ids.add(value.id)
    await this.deleteAll(orphans.filter((key) => !ids.has(partsOf(key).rest.split('/')[0])))
  }

  /** Notes from where on triggers judge here, and where that is where reading begins, the place. */
  async begin(namespace: string, place: Place | undefined, triggers: readonly Pick<Trigger, 'id' | 'after' | 'enabledAt'>[]): Promise<void> {
    const keys = keysOf(namespace)
    await this.state.transaction((tx) => {
      if (place !== undefined) tx.put(keys.place(this.history), place)
      for (const { id, after, enabledAt } of triggers) tx.put(keys.after(id, this.history), { position: after, enabled_at: enabledAt } satisfies After)
    })
  }

  /** Places of a namespace's signals that are kept: the first, and the next one. */
  async range(namespace: string): Promise<{ first: number; next: number }> {
    return (await this.state.get<Ring>(keysOf(namespace).ring)) ?? { first: 0, next: 0 }
  }

  /** Signals from a place on, oldest first. */
  async signals(namespace: string, from: number, before: number, limit: number): Promise<Signal[]> {
    const keys = keysOf(namespace)
    const range = { prefix: keys.signals, start: keys.signal(Math.max(0, from)), end: keys.signal(Math.max(0, before)), limit }
    return (await this.state.list<Signal>(range)).map(({ value }) => value)
  }

  /** Makes a trigger. @param place where judging begins, if nothing is judged yet. @returns false when there is one of the name. */
  async create(namespace: string, trigger: Trigger, place: Place | undefined): Promise<boolean> {
    const keys = keysOf(namespace)
    return this.state.transaction(async (tx) => {
      if ((await tx.get(keys.trigger(trigger.name))) !== undefined) return false
      tx.put(keys.trigger(trigger.name), keptOf(trigger))
      if (place !== undefined) tx.put(keys.place(this.history), place)
      return true
    })
  }

  /** Those that are gone stay so. @returns whether all were there. */
  async update(namespace: string, triggers: readonly Trigger[], place?: Place): Promise<boolean> {
    const keys = keysOf(namespace)
    return this.state.transaction(async (tx) => {
      const known = await Promise.all(triggers.map(({ name }) => tx.get<KeptTrigger>(keys.trigger(name))))
      const there = triggers.filter(({ id }, i) => known[i]?.id === id)
      for (const trigger of there) tx.put(keys.trigger(trigger.name), keptOf(trigger))
      if (place !== undefined) tx.put(keys.place(this.history), place)
      return there.length === triggers.length
    })
  }

  async drop(namespace: string, { name, id }: Trigger): Promise<void> {
    const keys = keysOf(namespace)
    await this.state.transaction(async (tx) => {
      for (const { key } of await tx.list({ prefix: keys.aftersOf(id), limit: PAGE })) tx.delete(key)
      tx.delete(keys.trigger(name))
      tx.delete(keys.floor(id))
    })
  }

  /** @param entries of cooldowns. */
  async forget(namespace: string, entries: readonly string[]): Promise<void> {
    const keys = keysOf(namespace)
    await this.deleteAll(entries.map((entry) => keys.cooldown(entry)))
  }

  /**
   * All that was judged up to a place, or nothing: signals, cooldowns and the place in one transaction. What waits in `pending` is numbered in it.
   * @param capacity signals that are kept. @returns what is kept now, and how many signals went. @throws RivalError when another process came first.
   */
  async commit(tenant: Tenant, to: Judged, pending: Pending, capacity: number): Promise<{ ring: Ring; place: Place; evicted: number }> {
    const keys = keysOf(tenant.namespace)
    const { first, next } = tenant.ring
    const { changes } = pending
    const signals = pending.signals.filter(({ trigger_id }) => tenant.byId.has(trigger_id))
    for (const [i, signal] of signals.entries()) signal.metadata.sequence = next + i
    pending.signals = signals
    const end = next + signals.length
    // Those of this very commit stay until they were handed to their channels.
    const kept = Math.max(first, Math.min(next, end - capacity, first + signals.length + EVICTED))
    const isFound = signals.length > 0 || changes.put.size > 0 || changes.deleted.size > 0 || changes.floors.size > 0
    const ring: Ring = isFound ? { version: tenant.ring.version + 1, first: kept, next: end } : tenant.ring
    const own = signals.length > 0 ? { handed: next, until: end } : { handed: tenant.place.until, until: tenant.place.until }
    const place: Place = { version: tenant.place.version + 1, ...to, ...own }
    if (to.partial === undefined) delete place.partial
    const caughtUp = to.caught_up ?? tenant.place.caught_up
    if (caughtUp !== undefined) place.caught_up = caughtUp
    await this.state.transaction(async (tx) => {
      const known = await tx.get<Place>(keys.place(this.history))
      const shared = await tx.get<Ring & Partial<FormerPlace>>(keys.ring)
      if ((known?.version ?? 0) !== tenant.place.version || (isFound && (shared?.version ?? 0) !== tenant.ring.version))
        throw new RivalError(`cannot commit what was judged of namespace "${tenant.namespace}": another process has judged it`)
      tx.put(keys.place(this.history), place)
      if (!isFound) return
      tx.put(keys.ring, { ...this.othersFormer(shared), ...ring })
      this.putFound(tx, tenant, { ...pending, signals }, first, kept)
    })
    return { ring, place, evicted: kept - first }
  }

  private putFound(tx: StateTransaction, { namespace, byId }: Tenant, { signals, changes }: Pending, first: number, kept: number): void {
    const keys = keysOf(namespace)
    for (let i = first; i < kept; i++) tx.delete(keys.signal(i))
    for (const signal of signals) tx.put(keys.signal(signal.metadata.sequence), signal)
    for (const entry of changes.deleted) tx.delete(keys.cooldown(entry))
    for (const [entry, spans] of changes.put) if (byId.has(entry.slice(0, entry.indexOf('/')))) tx.put(keys.cooldown(entry), spans)
    for (const [id, floor] of changes.floors) if (byId.has(id)) tx.put(keys.floor(id), String(floor))
  }

  /** What another node still needs of a place from before nodes had their own. */
  private othersFormer(ring: (Ring & Partial<FormerPlace>) | undefined): Partial<FormerPlace> {
    const isOthers = this.shared && ring?.position !== undefined && historyOf(ring.position) !== this.history
    return isOthers ? ring : {}
  }

  /** Moves places on, of namespaces of which nothing else has changed. @returns those that were moved. */
  async move(places: readonly { namespace: string; place: Place }[]): Promise<Set<string>> {
    return this.state.transaction(async (tx) => {
      const moved = new Set<string>()
      for (const { namespace, place } of places) {
        const key = keysOf(namespace).place(this.history)
        if (((await tx.get<Place>(key))?.version ?? 0) !== place.version - 1) continue
        tx.put(key, place)
        moved.add(namespace)
      }
      return moved
    })
  }

  /** Deletes all that a namespace has. */
  async clear(namespace: string): Promise<void> {
    for (const prefix of keysOf(namespace).all) {
      for (;;) {
        const page = await this.state.list({ prefix, limit: PAGE })
        if (page.length === 0) break
        await this.deleteAll(page.map(({ key }) => key))
      }
    }
  }

  private async *all<T>(prefix: string): AsyncGenerator<StateEntry<T>> {
    for (let start = prefix; ; ) {
      const page = await this.state.list<T>({ prefix, start, limit: PAGE })
      yield* page
      if (page.length < PAGE) return
      start = `${page[page.length - 1].key}\0`
    }
  }

  private async deleteAll(keys: readonly string[]): Promise<void> {
    for (let at = 0; at < keys.length; at += PAGE) {
      await this.state.transaction((tx) => {
        for (const key of keys.slice(at, at + PAGE)) tx.delete(key)
      })
    }
  }
}
