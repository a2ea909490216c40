/**
 * Composites of one namespace: triggers that fire when all their members have fired for points within a span of time, with the same values of the tags they are by.
 *
 * Memory is of the newest point of each member and group, bounded. It is no state of its own: after a start, and after a commit that failed, it follows from the
 * newest signals that are kept, the composites' own among them. An id follows from the composite, the group and the time: the same is found again under the same id.
 */
import { eventId, type Severity, type Signal } from './signal.ts'
import type { Composite } from './statement/parse.ts'
import type { Trigger } from './trigger.ts'

/** Of one composite; the one that was met longest ago goes. */
const MAX_GROUPS = 10_000
const SEVERITIES: readonly Severity[] = ['info', 'warning', 'critical']

interface Group {
  tags: Record<string, string>
  /** By member: the newest point that it fired for. */
  newest: (Pick<Signal, 'severity'> & { time: bigint })[]
  /** Nanoseconds: when the composite fired last. */
  fired: bigint | undefined
}

interface Member {
  trigger: Trigger
  composite: Composite
  groups: Map<string, Group>
}

export class Composites {
  private readonly byId = new Map<string, Member>()

  add(trigger: Trigger, composite: Composite): void {
    const groups = this.byId.get(trigger.id)?.groups ?? new Map()
    this.byId.set(trigger.id, { trigger, composite, groups })
  }

  remove({ id }: Trigger): void {
    this.byId.delete(id)
  }

  clear(): void {
    this.byId.clear()
  }

  /** Takes in signals that are committed. */
  remember(signals: readonly Signal[]): void {
    for (const signal of signals) {
      const own = this.byId.get(signal.trigger_id)
      if (own !== undefined) this.group(own, signal.tags).fired = BigInt(signal.timestamp)
      else for (const each of this.byId.values()) this.note(each, signal)
    }
  }

  /** @param signals that are about to be committed, in order. @returns those of composites that they complete. */
  of(signals: readonly Signal[]): Signal[] {
    const composed: Signal[] = []
    if (this.byId.size === 0) return composed
    for (const signal of signals) {
      for (const each of this.byId.values()) {
        const { trigger } = each
        const group = this.note(each, signal)
        const found = group === undefined || !trigger.enabled || !trigger.alive ? undefined : fired(each, group)
        if (found !== undefined) composed.push(found)
      }
    }
    return composed
  }

  private note(each: Member, { trigger_name, tags, timestamp, severity }: Signal): Group | undefined {
    const place = each.composite.members.indexOf(trigger_name)
    if (place < 0) return undefined
    const group = this.group(each, tags)
    const time = BigInt(timestamp)
    const known = group.newest[place]
    if (known === undefined || time >= known.time) group.newest[place] = { time, severity }
    return group
  }

  private group({ composite, groups }: Member, tags: Readonly<Record<string, string>>): Group {
    const own = Object.fromEntries(composite.by.filter((tag) => Object.hasOwn(tags, tag)).map((tag) => [tag, tags[tag]]))
    const key = JSON.stringify(composite.by.map((tag) => own[tag] ?? ''))
    const known = groups.get(key) ?? { tags: own, newest: new Array(composite.members.length), fired: undefined }
    groups.delete(key)
    groups.set(key, known)
    if (groups.size > MAX_GROUPS) groups.delete(groups.keys().next().value as string)
    return known
  }
}

function fired({ trigger, composite: { members, within } }: Member, group: Group): Signal | undefined {
  let first: bigint | undefined
  let last: bigint | undefined
  let worst = 0
  for (let i = 0; i < members.length; i++) {
    const newest = group.newest[i]
    if (newest === undefined) return undefined
    if (first === undefined || newest.time < first) first = newest.time
    if (last === undefined || newest.time > last) last = newest.time
    worst = Math.max(worst, SEVERITIES.indexOf(newest.severity))
  }
  if (first === undefined || last === undefined || last - first > within) return undefined
  // Late points of before count as well: a span is silent on both sides.
  if (group.fired !== undefined && last < group.fired + trigger.cooldown && group.fired < last + trigger.cooldown) return undefined
  group.fired = last
  const timestamp = String(last)
  return {
    event_id: eventId(trigger.id, group.tags, timestamp),
    trigger_id: trigger.id,
    trigger_name: trigger.name,
    measurement: trigger.measurement,
    tags: group.tags,
    timestamp,
    severity: SEVERITIES[worst],
    value: members.length,
    metadata: { sequence: 0, condition: trigger.conditionText },
  }
}
