/** Who reads the stream of annotations: bounded in number, and woken when there are signals. */
export class Subscribers {
  private readonly byNamespace = new Map<string, Set<() => void>>()
  private readonly most: number
  private readonly mostOfOne: number
  private sum = 0

  constructor(most: number, mostOfOne: number) {
    this.most = most
    this.mostOfOne = mostOfOne
  }

  get count(): number {
    return this.sum
  }

  /** @param wake called when there may be something new. @returns ends it; or why there is no room. */
  add(namespace: string, wake: () => void): (() => void) | string {
    const own = this.byNamespace.get(namespace) ?? new Set()
    if (own.size >= this.mostOfOne) return `the namespace has ${this.mostOfOne} readers already; end one, or raise triggers.max_subscribers_per_namespace`
    if (this.sum >= this.most) return `the server has ${this.most} readers already; end one, or raise triggers.max_subscribers`
    this.byNamespace.set(namespace, own)
    own.add(wake)
    this.sum++
    return () => {
      if (!own.delete(wake)) return
      this.sum--
      if (own.size === 0) this.byNamespace.delete(namespace)
    }
  }

  wake(namespace: string): void {
    for (const wake of this.byNamespace.get(namespace) ?? []) wake()
  }

  /** All of them, so that they see that it is over. */
  wakeAll(): void {
    for (const namespace of this.byNamespace.keys()) this.wake(namespace)
  }
}
