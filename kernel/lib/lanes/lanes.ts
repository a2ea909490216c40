/**
 * Who is sent to next: groups in turn, and within one its candidates in turn, within the bounds of each, of the group and of all. Candidates that did not
 * take what they were sent last at once, or never were sent anything, have half of either bound: the other half is there for those that did. Of the former
 * those that failed least often come first.
 */
export interface LaneLimits {
  /** Attempts under way. */
  total: number
  /** Of one group. */
  group: number
}

/** Somebody who is sent to, such as an endpoint. */
export interface Candidate {
  /** Such as a namespace or a tenant. */
  readonly group: string
  /** It has not taken at once what it was sent last. */
  slow: boolean
  /** In a row. */
  failures: number
}

/** One attempt under way. */
export interface Slot {
  readonly group: string
  /** It takes long, or is expected to. */
  slow: boolean
}

interface Group<C> {
  /** In turn: who was sent to goes to the end. */
  ready: Set<C>
  inFlight: number
  slow: number
}

/** Who is sent to next: the owner says who is `ready` and calls `pump`. */
export class Lanes<C extends Candidate> {
  inFlight = 0
  private slow = 0
  private readonly limits: LaneLimits
  private readonly groups = new Map<string, Group<C>>()

  constructor(limits: LaneLimits) {
    this.limits = limits
  }

  /** It may have something to send. */
  ready(candidate: C): void {
    const group = this.groups.get(candidate.group) ?? { ready: new Set(), inFlight: 0, slow: 0 }
    this.groups.set(candidate.group, group)
    group.ready.add(candidate)
  }

  forget(candidate: C): void {
    this.groups.get(candidate.group)?.ready.delete(candidate)
    this.tidy(candidate.group)
  }

  /** Offers each that is ready, in turn, until no more may be sent. @param start begins one attempt; false = it has nothing to send now, and leaves. */
  pump(start: (candidate: C, slot: Slot) => boolean): void {
    for (let progress = true; progress; ) {
      progress = false
      for (const [name, group] of [...this.groups]) {
        if (this.inFlight >= this.limits.total) return
        if (!this.startOne(group, start)) continue
        progress = true
        // The next round begins with another one.
        if (this.groups.delete(name)) this.groups.set(name, group)
      }
    }
  }

  /** It turns out to take long. */
  markSlow(slot: Slot): void {
    if (slot.slow) return
    slot.slow = true
    this.slow++
    this.groupOf(slot).slow++
  }

  end(slot: Slot): void {
    const group = this.groupOf(slot)
    this.inFlight--
    group.inFlight--
    if (slot.slow) {
      this.slow--
      group.slow--
    }
    this.tidy(slot.group)
  }

  private startOne(group: Group<C>, start: (candidate: C, slot: Slot) => boolean): boolean {
    if (group.inFlight >= this.limits.group) return false
    for (;;) {
      const candidate = this.choose(group)
      if (candidate === undefined) return false
      group.ready.delete(candidate)
      const slot: Slot = { group: candidate.group, slow: candidate.slow }
      this.inFlight++
      group.inFlight++
      if (slot.slow) {
        this.slow++
        group.slow++
      }
      if (start(candidate, slot)) {
        group.ready.add(candidate)
        return true
      }
      this.end(slot)
    }
  }

  private choose(group: Group<C>): C | undefined {
    const slowAllowed = this.slow < this.limits.total / 2 && group.slow < this.limits.group / 2
    let best: C | undefined
    for (const candidate of group.ready) {
      // One that is good and comes first in turn goes first.
      if (!candidate.slow) return best ?? candidate
      if (slowAllowed && (best === undefined || candidate.failures < best.failures)) best = candidate
    }
    return best
  }

  private groupOf({ group }: Slot): Group<C> {
    return this.groups.get(group) as Group<C>
  }

  private tidy(name: string): void {
    const group = this.groups.get(name)
    if (group !== undefined && group.ready.size === 0 && group.inFlight === 0) this.groups.delete(name)
  }
}
