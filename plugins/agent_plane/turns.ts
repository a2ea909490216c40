/**
 * How many runs go on at one time in this process, of all tenants together. Who has the fewest places gets the next one that is free; within a tenant others
 * wait in the order in which they came. Where there are several tenants, a quarter of the places, and of the queue, is kept for those that have less than their
 * share, so that runs of one that take long leave room for others.
 */
export class Turns {
  private readonly max: number
  private readonly tenants: number
  private readonly owners = new Map<object, Owner>()
  private taken = 0
  private queued = 0
  private readonly relieved: { owner: object; count: number; resolve: () => void }[] = []

  /** @param tenants how many owners there may be. */
  constructor(max: number, tenants = 1) {
    this.max = max
    this.tenants = tenants
  }

  get active(): number {
    return this.taken
  }

  get waiting(): number {
    return this.queued
  }

  /** Whether one more of an owner may wait. @param max that wait, of all owners. */
  hasRoom(owner: object, max: number): boolean {
    return this.mayHave(this.queued, this.waitingOf(owner), max)
  }

  /** @param begin is called when there is room; `end` gives it back. */
  take(owner: object, begin: () => void): void {
    const own = this.owners.get(owner) ?? { active: 0, queue: [] }
    this.owners.set(owner, own)
    own.queue.push(begin)
    this.queued++
    this.next()
  }

  end(owner: object): void {
    this.taken--
    const own = this.owners.get(owner)
    if (own !== undefined) own.active--
    this.next()
  }

  /** Those of an owner that wait get no turn any more. */
  forget(owner: object): void {
    const own = this.owners.get(owner)
    if (own === undefined) return
    this.queued -= own.queue.length
    own.queue = []
    this.relieve()
  }

  /** Resolves when fewer than so many of an owner wait. */
  below(count: number, owner: object): Promise<void> {
    if (this.waitingOf(owner) < count) return Promise.resolve()
    return new Promise((resolve) => void this.relieved.push({ owner, count, resolve }))
  }

  private waitingOf(owner: object): number {
    return this.owners.get(owner)?.queue.length ?? 0
  }

  private mayHave(all: number, own: number, max: number): boolean {
    const kept = this.tenants > 1 ? Math.floor(max / 4) : 0
    return all < max && (all < max - kept || own < Math.max(1, Math.floor(max / this.tenants)))
  }

  private relieve(): void {
    for (let at = this.relieved.length - 1; at >= 0; at--) {
      const { owner, count } = this.relieved[at]
      if (this.waitingOf(owner) < count) this.relieved.splice(at, 1)[0].resolve()
    }
  }

  private next(): void {
    for (;;) {
      let least: [object, Owner] | undefined
      for (const each of this.owners) if (each[1].queue.length > 0 && (least === undefined || each[1].active < least[1].active)) least = each
      if (least === undefined || !this.mayHave(this.taken, least[1].active, this.max)) return
      const [owner, own] = least
      const begin = own.queue.shift() as () => void
      this.queued--
      this.taken++
      own.active++
      // In turn, where several have as few.
      this.owners.delete(owner)
      this.owners.set(owner, own)
      begin()
      this.relieve()
    }
  }
}

interface Owner {
  active: number
  queue: (() => void)[]
}
