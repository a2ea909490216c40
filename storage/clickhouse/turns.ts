/** Operations on a namespace in the order of their calls. A write's turn ends when it is judged and on its way; others have theirs when all before them are done. */
export class Turns {
  private readonly last = new Map<string, Promise<unknown>>()
  /** Writes on their way. */
  private readonly underWay = new Map<string, Set<Promise<unknown>>>()

  take<T>(namespace: string, body: () => Promise<T>): Promise<T> {
    const before = this.last.get(namespace) ?? Promise.resolve()
    const done = before.then(body, body)
    const settled = done.then(
      () => {},
      () => {},
    )
    this.last.set(namespace, settled)
    void settled.then(() => {
      if (this.last.get(namespace) === settled) this.last.delete(namespace)
    })
    return done
  }

  /** When all writes before it are stored, and before those that come after it. */
  alone<T>(namespace: string, body: () => Promise<T>): Promise<T> {
    // As they are now: writes that come until its turn wait for it.
    const before = this.writesOf(namespace)
    return this.take(namespace, async () => {
      await Promise.allSettled(before)
      return body()
    })
  }

  /** A write that is under way until it settles: what waits for the namespace waits for it. */
  async under<T>(namespace: string, write: Promise<T>): Promise<T> {
    const all = this.underWay.get(namespace) ?? new Set()
    this.underWay.set(namespace, all.add(write))
    try {
      return await write
    } finally {
      all.delete(write)
      if (all.size === 0) this.underWay.delete(namespace)
    }
  }

  /** When what was called before is done. */
  async settled(namespace: string): Promise<void> {
    const before = this.writesOf(namespace)
    await this.last.get(namespace)
    await Promise.allSettled(before)
  }

  async settledAll(): Promise<void> {
    for (const namespace of new Set([...this.last.keys(), ...this.underWay.keys()])) await this.settled(namespace)
  }

  private writesOf(namespace: string): Promise<unknown>[] {
    return [...(this.underWay.get(namespace) ?? [])]
  }
}
