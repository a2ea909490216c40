/** What triggers keep in the state store, and how it is read and committed. */
import { type Following, followState, type StateEntry, type StateStore } from 'svcdb'
import type { KeptSpans } from './cooldown/spans.ts'
import { keysOf, type Place, partsOf, TRIGGERS } from './keys.ts'
import type { Signal } from './signal.ts'
import type { Pending, Tenant } from './tenant.ts'
import { type KeptTrigger, keptOf, type Trigger, triggerOf } from './trigger.ts'

/** Entries that are read or deleted at once. */
const PAGE = 500
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
  place: Place | undefined
  triggers: Trigger[]
  cooldowns: KeptCooldown[]
  /** The newest signals, oldest first, where composites have to remember them. */
  recent: Signal[]
  /** Keys of what belongs to no trigger. */
  orphans: string[]
}

export class Store {
  private readonly state: StateStore

  constructor(state: StateStore) {
    this.state = state
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

  trigger(namespace: string, name: string): Promise<KeptTrigger | undefined> {
    return this.state.get<KeptTrigger>(keysOf(namespace).trigger(name))
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
    const place = await this.state.get<Place>(keys.place)
    const triggers = new Map<string, Trigger>()
    for await (const { key, value } of this.all<KeptTrigger>(keys.triggers)) {
      try {
        triggers.set(value.id, triggerOf(value))
      } catch (error) {
        unreadable(key, error)
      }
    }
    const orphans: string[] = []
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
    const recent = wanted && place !== undefined ? await this.signals(namespace, Math.max(place.first, place.next - RECENT), place.next, RECENT) : []
    return { place, triggers: [...triggers.values()], cooldowns, orphans, recent }
  }

  /** What a drop was kept from deleting. */
  async deleteOrphans({ orphans }: KeptTenant): Promise<void> {
    await this.deleteAll(orphans)
  }

  /** Places of a namespace's signals that are kept: the first, and the next one. */
  async range(namespace: string): Promise<{ first: number; next: number }> {
    return (await this.state.get<Place>(keysOf(namespace).place)) ?? { first: 0, next: 0 }
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
      if (place !== undefined) tx.put(keys.place, place)
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
      if (place !== undefined) tx.put(keys.place, place)
      return there.length === triggers.length
    })
  }

  async drop(namespace: string, { name, id }: Trigger): Promise<void> {
    const keys = keysOf(namespace)
    await this.state.transaction((tx) => {
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
   * @param capacity signals that are kept. @returns the place as it is now, and how many signals went. @throws RivalError when another process came first.
   */
  async commit(tenant: Tenant, to: Judged, pending: Pending, capacity: number): Promise<{ place: Place; evicted: number }> {
    const keys = keysOf(tenant.namespace)
    const { version, first, next } = tenant.place
    const alive = (entry: string): boolean => tenant.byId.has(entry.slice(0, entry.indexOf('/')))
    const signals = pending.signals.filter(({ trigger_id }) => tenant.byId.has(trigger_id))
    for (const [i, signal] of signals.entries()) signal.metadata.sequence = next + i
    pending.signals = signals
    const end = next + signals.length
    // Those of this very commit stay until they were handed to their channels.
    const kept = Math.max(first, Math.min(next, end - capacity))
    const place: Place = { version: version + 1, ...to, first: kept, next: end, handed: next }
    if (to.partial === undefined) delete place.partial
    const caughtUp = to.caught_up ?? tenant.place.caught_up
    if (caughtUp !== undefined) place.caught_up = caughtUp
    await this.state.transaction(async (tx) => {
      const known = await tx.get<Place>(keys.place)
      if ((known?.version ?? 0) !== version)
        throw new RivalError(`cannot commit what was judged of namespace "${tenant.namespace}": another process has judged it`)
      tx.put(keys.place, place)
      for (let i = first; i < kept; i++) tx.delete(keys.signal(i))
      for (const signal of signals) tx.put(keys.signal(signal.metadata.sequence), signal)
      for (const entry of pending.changes.deleted) tx.delete(keys.cooldown(entry))
      for (const [entry, spans] of pending.changes.put) if (alive(entry)) tx.put(keys.cooldown(entry), spans)
      for (const [id, floor] of pending.changes.floors) if (tenant.byId.has(id)) tx.put(keys.floor(id), String(floor))
    })
    return { place, evicted: kept - first }
  }

  /** Moves places on, of namespaces of which nothing else has changed. @returns those that were moved. */
  async move(places: readonly { namespace: string; place: Place }[]): Promise<Set<string>> {
    return this.state.transaction(async (tx) => {
      const moved = new Set<string>()
      for (const { namespace, place } of places) {
        const { place: key } = keysOf(namespace)
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
