/** One namespace's triggers in memory: by name, and by the measurement that they watch. */

import { Composites } from './composites.ts'
import { type CooldownChanges, Cooldowns } from './cooldown/cooldowns.ts'
import { Evaluator } from './evaluate/evaluator.ts'
import { compile } from './evaluate/program.ts'
import type { Scratch } from './evaluate/scratch.ts'
import type { FactsBudget } from './evaluate/series-facts.ts'
import type { Place, Ring } from './keys.ts'
import type { Signal } from './signal.ts'
import { type Condition, fieldsOf } from './statement/condition.ts'
import type { KeptCooldown, KeptTenant } from './store.ts'
import type { Trigger } from './trigger.ts'

/** The triggers on one measurement, ready to be asked. */
export interface Watch {
  readonly triggers: readonly Trigger[]
  readonly evaluator: Evaluator
}

interface Shared {
  readonly scratch: Scratch
  readonly facts: FactsBudget
}

/** What was judged and is not committed yet. */
export interface Pending {
  signals: Signal[]
  /** Of the signals and those of composites that they may complete: how many. */
  weight: number
  /** Characters of their tags and conditions, about. */
  size: number
  changes: CooldownChanges
}

export const nothingPending = (): Pending => ({ signals: [], weight: 0, size: 0, changes: { put: new Map(), deleted: new Set(), floors: new Map() } })

export class Tenant {
  readonly namespace: string
  readonly triggers = new Map<string, Trigger>()
  readonly byId = new Map<string, Trigger>()
  cooldowns: Cooldowns
  readonly composites: Composites
  /** As they are committed. */
  ring: Ring = NO_RING
  place: Place = NOWHERE
  /** Signals before it, of those found here, were handed to their channels. */
  handed = 0
  /** Rises with each change of what there is. */
  generation = 0
  private readonly byMeasurement = new Map<string, Trigger[]>()
  private readonly watches = new Map<string, Watch>()
  private readonly shared: Shared
  private readonly most: () => number

  /** @param most cooldowns that there may be. @param groups of composites that are remembered. */
  constructor(namespace: string, shared: Shared, most: () => number, groups: number) {
    this.namespace = namespace
    this.composites = new Composites(groups, (name) => this.triggers.get(name)?.id)
    this.shared = shared
    this.most = most
    this.cooldowns = new Cooldowns(most)
  }

  get enabled(): number {
    let count = 0
    for (const { enabled } of this.triggers.values()) if (enabled) count++
    return count
  }

  /** In place of one of its id. */
  add(trigger: Trigger): void {
    const known = this.byId.get(trigger.id)
    if (known !== undefined) this.remove(known)
    this.generation++
    this.triggers.set(trigger.name, trigger)
    this.byId.set(trigger.id, trigger)
    if (trigger.condition.kind === 'signals') return this.composites.add(trigger, trigger.condition)
    const others = this.byMeasurement.get(trigger.measurement)
    if (others === undefined) this.byMeasurement.set(trigger.measurement, [trigger])
    else others.push(trigger)
    this.watches.delete(trigger.measurement)
  }

  remove({ id }: Trigger): void {
    const trigger = this.byId.get(id)
    if (trigger === undefined) return
    this.generation++
    trigger.alive = false
    this.triggers.delete(trigger.name)
    this.byId.delete(id)
    if (trigger.condition.kind === 'signals') return this.composites.remove(trigger)
    const others = this.on(trigger.measurement).filter((other) => other !== trigger)
    if (others.length === 0) this.byMeasurement.delete(trigger.measurement)
    else this.byMeasurement.set(trigger.measurement, others)
    this.watches.delete(trigger.measurement)
  }

  on(measurement: string): readonly Trigger[] {
    return this.byMeasurement.get(measurement) ?? []
  }

  isWatched(measurement: string): boolean {
    return this.byMeasurement.has(measurement)
  }

  /** What `watch` has made, while there are no others. */
  watched(measurement: string): Watch | undefined {
    return this.watches.get(measurement)
  }

  /**
   * The triggers on a measurement as they are when it is asked; yields where it may be interrupted, for there may be tens of thousands of comparisons. One that is added
   * meanwhile judges what is written behind the change that this is for.
   */
  *watch(measurement: string): Generator<void, Watch | undefined, void> {
    const { generation } = this
    const triggers = [...this.on(measurement)]
    if (triggers.length === 0) return undefined
    const program = yield* compile(triggers.map(({ condition }) => condition as Condition))
    const watch = { triggers, evaluator: new Evaluator(program, this.shared.scratch, this.shared.facts) }
    // The next change asks anew where there are others by now.
    if (generation === this.generation) this.watches.set(measurement, watch)
    return watch
  }

  /** What its triggers look at: no row without one of these fields fires. Undefined = any may. */
  fieldsOf(measurement: string): string[] | undefined {
    const all = this.on(measurement).map(({ condition }) => fieldsOf(condition as Condition))
    return all.includes(undefined) ? undefined : [...new Set(all.flatMap((names) => names ?? []))]
  }

  /** Measurements with triggers that are enabled, and when the first of those was. */
  enabledSince(): Map<string, bigint> {
    const found = new Map<string, bigint>()
    for (const { measurement, enabled, since, condition } of this.triggers.values()) {
      if (condition.kind === 'signals') continue
      const known = found.get(measurement)
      if (enabled && (known === undefined || since < known)) found.set(measurement, since)
    }
    return found
  }

  /** Forgets which series numbers stand for: a reader counts them in his own way. */
  forgetSeries(): void {
    this.watches.clear()
    this.cooldowns.forgetSeries()
  }

  /** Becomes what is kept. */
  become({ ring = NO_RING, place = NOWHERE, triggers, cooldowns, recent }: KeptTenant): void {
    this.clear()
    // A namespace that was deleted meanwhile counts from the beginning.
    this.handed = ring.version < this.ring.version ? place.handed : Math.max(this.handed, place.handed)
    this.ring = ring
    this.place = place
    for (const trigger of triggers) this.add(trigger)
    const newest = new Map(cooldowns.map((each) => [each, BigInt(each.spans.spans.at(-1) ?? '0')]))
    const order = (a: KeptCooldown, b: KeptCooldown): number => Number((newest.get(a) as bigint) - (newest.get(b) as bigint))
    for (const { entry, trigger, spans } of cooldowns.toSorted(order)) this.cooldowns.load(entry, trigger, spans)
    this.composites.remember(recent)
    // Newest first: when composites fired was once not kept.
    for (const { trigger_id, tags, timestamp } of recent.toReversed()) {
      const trigger = this.byId.get(trigger_id)
      if (trigger?.condition.kind === 'signals') this.cooldowns.recall(trigger, tags, timestamp)
    }
  }

  clear(): void {
    this.generation++
    for (const trigger of this.triggers.values()) trigger.alive = false
    this.triggers.clear()
    this.byId.clear()
    this.byMeasurement.clear()
    this.watches.clear()
    this.composites.clear()
    this.cooldowns = new Cooldowns(this.most)
  }
}

const NO_RING: Ring = { version: 0, first: 0, next: 0 }
const NOWHERE: Place = { version: 0, position: '', handed: 0, until: 0 }
