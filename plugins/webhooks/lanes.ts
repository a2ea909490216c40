/**
 * Who is sent to next: namespaces in turn, and within one its endpoints in turn, within the bounds of each, of the namespace and of all. Endpoints that did
 * not take their last delivery at once, or never had one, have half of either bound: the other half is there for those that did. Of the former those that
 * failed least often come first.
 */
export interface LaneLimits {
  total: number
  namespace: number
}

export interface Candidate {
  readonly namespace: string
  /** It has not taken its last delivery at once. */
  slow: boolean
  /** In a row. */
  failures: number
}

/** One attempt under way. */
export interface Slot {
  readonly namespace: string
  /** It takes long, or is expected to. */
  slow: boolean
}

interface Group<C> {
  /** In turn: who was sent to goes to the end. */
  ready: Set<C>
  inFlight: number
  slow: number
}

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
    const group = this.groups.get(candidate.namespace) ?? { ready: new Set(), inFlight: 0, slow: 0 }
    this.groups.set(candidate.namespace, group)
    group.ready.add(candidate)
  }

  forget(candidate: C): void {
    this.groups.get(candidate.namespace)?.ready.delete(candidate)
    this.tidy(candidate.namespace)
  }

  /** Offers each that is ready, in turn, until no more may be sent. @param start begins one attempt; false = it has nothing to send now, and leaves. */
  pump(start: (candidate: C, slot: Slot) => boolean): void {
    for (let progress = true; progress; ) {
      progress = false
      for (const [namespace, group] of [...this.groups]) {
        if (this.inFlight >= this.limits.total) return
        if (!this.startOne(group, start)) continue
        progress = true
        // The next round begins with another one.
        if (this.groups.delete(namespace)) this.groups.set(namespace, group)
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
    this.tidy(slot.namespace)
  }

  private startOne(group: Group<C>, start: (candidate: C, slot: Slot) => boolean): boolean {
    if (group.inFlight >= this.limits.namespace) return false
    for (;;) {
      const candidate = this.choose(group)
      if (candidate === undefined) return false
      group.ready.delete(candidate)
      const slot: Slot = { namespace: candidate.namespace, slow: candidate.slow }
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
    const slowAllowed = this.slow < this.limits.total / 2 && group.slow < this.limits.namespace / 2
    let best: C | undefined
    for (const candidate of group.ready) {
      // One that is good and comes first in turn goes first.
      if (!candidate.slow) return best ?? candidate
      if (slowAllowed && (best === undefined || candidate.failures < best.failures)) best = candidate
    }
    return best
  }

  private groupOf({ namespace }: Slot): Group<C> {
    return this.groups.get(namespace) as Group<C>
  }

  private tidy(namespace: string): void {
    const group = this.groups.get(namespace)
    if (group !== undefined && group.ready.size === 0 && group.inFlight === 0) this.groups.delete(namespace)
  }
}
