/** How many runs go on at one time in this process, of all tenants together. Others wait in the order in which they came. */
export class Turns {
  private readonly max: number
  private readonly queue: { owner: object; begin: () => void }[] = []
  private taken = 0
  private readonly relieved: { count: number; resolve: () => void }[] = []

  constructor(max: number) {
    this.max = max
  }

  get active(): number {
    return this.taken
  }

  get waiting(): number {
    return this.queue.length
  }

  /** @param begin is called when there is room; `end` gives it back. */
  take(owner: object, begin: () => void): void {
    this.queue.push({ owner, begin })
    this.next()
  }

  end(): void {
    this.taken--
    this.next()
  }

  /** Those of an owner that wait get no turn any more. */
  forget(owner: object): void {
    for (let at = this.queue.length - 1; at >= 0; at--) if (this.queue[at].owner === owner) this.queue.splice(at, 1)
    this.relieve()
  }

  /** Resolves when fewer than so many wait. */
  below(count: number): Promise<void> {
    if (this.queue.length < count) return Promise.resolve()
    return new Promise((resolve) => void this.relieved.push({ count, resolve }))
  }

  private relieve(): void {
    for (let at = this.relieved.length - 1; at >= 0; at--) if (this.queue.length < this.relieved[at].count) this.relieved.splice(at, 1)[0].resolve()
  }

  private next(): void {
    while (this.taken < this.max) {
      const next = this.queue.shift()
      if (next === undefined) return
      this.taken++
      next.begin()
      this.relieve()
    }
  }
}
