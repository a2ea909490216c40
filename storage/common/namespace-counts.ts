/** How many of something are under way, in all and by namespace. */
export class NamespaceCounts {
  all = 0
  private readonly own = new Map<string, number>()

  /** @param namespace empty = not kept apart, and never at its share. */
  add(namespace: string, by: 1 | -1): void {
    this.all += by
    if (namespace === '') return
    const count = this.of(namespace) + by
    if (count > 0) this.own.set(namespace, count)
    else this.own.delete(namespace)
  }

  of(namespace: string): number {
    return this.own.get(namespace) ?? 0
  }
}
