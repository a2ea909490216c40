/**
 * Cooldowns of one namespace: the spans of each trigger and series that has fired, bounded in number. When there are too many, those that fired longest ago go, and
 * all up to their newest time stays silent for the trigger: what was forgotten can cost a late signal, never make a second one.
 */
import { createHash } from 'node:crypto'
import { FifoMap } from 'svcdb/lib/cache'
import { type KeptSpans, Spans } from './spans.ts'

/** One trigger's. */
export interface TriggerCooldowns {
  readonly id: string
  /** Nanoseconds. */
  readonly cooldown: bigint
  /** For series that are not remembered. */
  floor: bigint | undefined
  /** Of series of this process; the same entries as in `Cooldowns.entries`. */
  readonly bySeries: Map<number, Entry>
}

export interface Entry {
  key: string
  trigger: TriggerCooldowns
  /** Number in this process; undefined = not met yet. */
  series: number | undefined
  spans: Spans
}

/** What a judgement has changed, for the store. */
export interface CooldownChanges {
  put: Map<string, KeptSpans>
  deleted: Set<string>
  /** By trigger's id. */
  floors: Map<string, bigint>
}

type Judgement = 'fires' | 'silent' | 'forgotten'

/** Entries that may go for a new one: when there may be fewer than before, what is too much may be millions. */
const FORGOTTEN = 16

export class Cooldowns {
  /** Key: trigger's id and the series' hash. In the order in which they fired. */
  private readonly entries = new FifoMap<string, Entry>()
  private readonly most: () => number

  /** @param most entries that there may be. */
  constructor(most: () => number) {
    this.most = most
  }

  get size(): number {
    return this.entries.size
  }

  load(key: string, trigger: TriggerCooldowns, kept: KeptSpans): void {
    this.entries.set(key, { key, trigger, series: undefined, spans: Spans.from(kept, trigger.cooldown) })
  }

  /** Judges a point that the condition holds for, and remembers it where it fires. @param tags of the series, asked for when it is met first. */
  judge(trigger: TriggerCooldowns, series: number, low: number, high: number, tags: () => Record<string, string>, changes: CooldownChanges): Judgement {
    let entry = trigger.bySeries.get(series)
    if (entry?.spans.isSurelySilent(low, high)) return 'silent'
    let key = entry?.key
    if (entry === undefined) {
      key = keyOf(trigger, tags())
      entry = this.entries.get(key)
      if (entry !== undefined) this.name(entry, series)
    }
    const time = (BigInt(high) << 32n) | BigInt(low >>> 0)
    if (entry === undefined) {
      if (trigger.floor !== undefined && time <= trigger.floor) return 'forgotten'
      entry = this.made(key as string, trigger, changes)
      this.name(entry, series)
    } else if (entry.spans.isSilent(time, trigger.cooldown)) return 'silent'
    this.fire(entry, time, changes)
    return 'fires'
  }

  /** As `judge`, of what has tags and is no series. */
  judgeTime(trigger: TriggerCooldowns, tags: Record<string, string>, time: bigint, changes: CooldownChanges): Judgement {
    const key = keyOf(trigger, tags)
    let entry = this.entries.get(key)
    if (entry === undefined) {
      if (trigger.floor !== undefined && time <= trigger.floor) return 'forgotten'
      entry = this.made(key, trigger, changes)
    } else if (entry.spans.isSilent(time, trigger.cooldown)) return 'silent'
    this.fire(entry, time, changes)
    return 'fires'
  }

  /** Remembers what fired before this was kept. */
  recall(trigger: TriggerCooldowns, tags: Record<string, string>, time: string): void {
    const key = keyOf(trigger, tags)
    if (!this.entries.has(key) && trigger.floor === undefined) this.load(key, trigger, { spans: [time, time] })
  }

  private made(key: string, trigger: TriggerCooldowns, changes: CooldownChanges): Entry {
    this.makeRoom(changes)
    // It may have been here before, and be forgotten.
    return { key, trigger, series: undefined, spans: new Spans(trigger.floor) }
  }

  private fire(entry: Entry, time: bigint, changes: CooldownChanges): void {
    entry.spans.add(time, entry.trigger.cooldown)
    this.entries.delete(entry.key)
    this.entries.set(entry.key, entry)
    changes.put.set(entry.key, entry.spans.kept())
    changes.deleted.delete(entry.key)
  }

  /** Forgets a trigger that is dropped, by its id. @returns the keys of its entries. */
  drop(id: string): string[] {
    const dropped = [...this.entries.values()].filter((entry) => entry.trigger.id === id)
    for (const { key, trigger } of dropped) {
      this.entries.delete(key)
      trigger.bySeries.clear()
    }
    return dropped.map(({ key }) => key)
  }

  /** Numbers of series mean others from now on. */
  forgetSeries(): void {
    for (const entry of this.entries.values()) {
      entry.series = undefined
      entry.trigger.bySeries.clear()
    }
  }

  private name(entry: Entry, series: number): void {
    entry.series = series
    entry.trigger.bySeries.set(series, entry)
  }

  private makeRoom(changes: CooldownChanges): void {
    for (let gone = 0; gone < FORGOTTEN && this.entries.size >= Math.max(1, this.most()); gone++) {
      const { key, trigger, series, spans } = this.entries.get(this.entries.oldest() as string) as Entry
      this.entries.delete(key)
      if (series !== undefined) trigger.bySeries.delete(series)
      if (trigger.floor === undefined || spans.newest > trigger.floor) trigger.floor = spans.newest
      changes.floors.set(trigger.id, trigger.floor)
      changes.put.delete(key)
      changes.deleted.add(key)
    }
  }
}

const keyOf = ({ id }: TriggerCooldowns, tags: Readonly<Record<string, string>>): string => `${id}/${seriesHash(tags)}`

/** The same for the same tags in every process. */
export function seriesHash(tags: Readonly<Record<string, string>>): string {
  return createHash('sha256').update(seriesText(tags)).digest('base64url').slice(0, 22)
}

/** The tags of a series, in one order. */
export function seriesText(tags: Readonly<Record<string, string>>): string {
  return JSON.stringify(Object.entries(tags).sort(([a], [b]) => (a < b ? -1 : 1)))
}
