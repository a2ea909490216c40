/**
 * Composites of one namespace: triggers that fire when all their members have fired for points within a span of time, with the same values of the tags they are by.
 *
 * Memory is of the newest point of each member and group, bounded over all composites. It is no state of its own: after a start, and after a commit that failed, it follows
 * from the newest signals that are kept. When a composite has fired is a cooldown as those of other triggers, committed with its signal. An id follows from the
 * composite, the group and the time: the same is found again under the same id.
 */
import { FifoMap } from 'svcdb/lib/cache'
import type { CooldownChanges, Cooldowns } from './cooldown/cooldowns.ts'
import { eventId, type Severity, type Signal, signalCondition } from './signal.ts'
import type { Composite } from './statement/parse.ts'
import type { Trigger } from './trigger.ts'

const SEVERITIES: readonly Severity[] = ['info', 'warning', 'critical']
/** Pairs of a signal and a composite between two yields. */
const PAIRS = 64

interface Group {
  tags: Record<string, string>
  /** By member: the newest point that it fired for. It may have been dropped since, and another be of its name. */
  newest: (Pick<Signal, 'severity' | 'trigger_id'> & { time: bigint })[]
}

interface Known {
  trigger: Trigger
  composite: Composite
}

export class Composites {
  private readonly byId = new Map<string, Known>()
  private readonly byMember = new Map<string, Known[]>()
  /** By composite and values of its tags, in the order in which they were met. */
  private readonly groups = new FifoMap<string, Group>()
  private readonly most: number
  private readonly idOf: (name: string) => string | undefined

  /** @param most groups that are remembered, of all; the one that was met longest ago goes. @param idOf the trigger that there is of a name. */
  constructor(most: number, idOf: (name: string) => string | undefined) {
    this.most = most
    this.idOf = idOf
  }

  get size(): number {
    return this.byId.size
  }

  /** How many a trigger is a member of. */
  countOf(member: string): number {
    return this.byMember.get(member)?.length ?? 0
  }

  /** Tags that those are by of which a trigger is a member. */
  tagsFor(member: string): ReadonlySet<string> {
    return new Set(this.byMember.get(member)?.flatMap(({ composite: { by } }) => by))
  }

  add(trigger: Trigger, composite: Composite): void {
    const known = { trigger, composite }
    this.byId.set(trigger.id, known)
    for (const member of composite.members) {
      const others = this.byMember.get(member)
      if (others === undefined) this.byMember.set(member, [known])
      else others.push(known)
    }
  }

  remove({ id }: Trigger): void {
    const known = this.byId.get(id)
    if (known === undefined) return
    this.byId.delete(id)
    for (const member of known.composite.members) {
      const others = (this.byMember.get(member) ?? []).filter((other) => other !== known)
      if (others.length === 0) this.byMember.delete(member)
      else this.byMember.set(member, others)
    }
    for (const key of this.groups.keys()) if (key.startsWith(id)) this.groups.delete(key)
  }

  clear(): void {
    this.byId.clear()
    this.byMember.clear()
    this.groups.clear()
  }

  /** Takes in signals that are committed. */
  remember(signals: readonly Signal[]): void {
    for (const signal of signals) for (const known of this.byMember.get(signal.trigger_name) ?? []) this.note(known, signal)
  }

  /**
   * Yields where it may be interrupted.
   * @param signals that are about to be committed, in order. @param changes gets what is to be remembered of those that fire. @returns those of composites that they complete.
   */
  *of(signals: readonly Signal[], cooldowns: Cooldowns, changes: CooldownChanges): Generator<void, Signal[], void> {
    const composed: Signal[] = []
    let pairs = 0
    for (const signal of signals) {
      // Copied: one may be dropped at a yield.
      for (const known of [...(this.byMember.get(signal.trigger_name) ?? [])]) {
        if (++pairs % PAIRS === 0) yield
        const { trigger } = known
        if (!trigger.alive) continue
        const group = this.note(known, signal)
        if (group === undefined) continue
        const found = trigger.enabled ? this.completed(known, group) : undefined
        if (found !== undefined && cooldowns.judgeTime(trigger, group.tags, BigInt(found.timestamp), changes) === 'fires') composed.push(found)
      }
    }
    return composed
  }

  /** @returns undefined for a signal of a member that is not there any more. */
  private note({ trigger, composite }: Known, { trigger_id, trigger_name, tags, timestamp, severity }: Signal): Group | undefined {
    if (trigger_id !== this.idOf(trigger_name)) return undefined
    const group = this.group(trigger.id, composite, tags)
    const place = composite.members.indexOf(trigger_name)
    const time = BigInt(timestamp)
    const known = group.newest[place]
    if (known?.trigger_id !== trigger_id || time >= known.time) group.newest[place] = { time, severity, trigger_id }
    return group
  }

  private group(id: string, { by, members }: Composite, tags: Readonly<Record<string, string>>): Group {
    const own = Object.fromEntries(by.filter((tag) => Object.hasOwn(tags, tag)).map((tag) => [tag, tags[tag]]))
    const key = id + JSON.stringify(by.map((tag) => own[tag] ?? ''))
    const known = this.groups.get(key) ?? { tags: own, newest: new Array(members.length) }
    this.groups.delete(key)
    this.groups.set(key, known)
    if (this.groups.size > this.most) this.groups.delete(this.groups.oldest() as string)
    return known
  }

  /** The signal of a composite whose members have all fired within its span. */
  private completed({ trigger, composite: { members, within } }: Known, { tags, newest }: Group): Signal | undefined {
    let first: bigint | undefined
    let last: bigint | undefined
    let worst = 0
    for (let i = 0; i < members.length; i++) {
      const point = newest[i]
      if (point === undefined || point.trigger_id !== this.idOf(members[i])) return undefined
      if (first === undefined || point.time < first) first = point.time
      if (last === undefined || point.time > last) last = point.time
      worst = Math.max(worst, SEVERITIES.indexOf(point.severity))
    }
    if (first === undefined || last === undefined || last - first > within) return undefined
    const timestamp = String(last)
    return {
      event_id: eventId(trigger.id, tags, timestamp),
      trigger_id: trigger.id,
      trigger_name: trigger.name,
      measurement: trigger.measurement,
      tags,
      timestamp,
      severity: SEVERITIES[worst],
      value: members.length,
      metadata: { sequence: 0, condition: signalCondition(trigger.conditionText) },
    }
  }
}
