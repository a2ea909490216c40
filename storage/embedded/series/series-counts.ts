/** Series of each namespace: durable ones, and those that batches under way have named. Nothing stays of a namespace that has none. */
export class SeriesCounts {
  private readonly counts = new Map<string, number>()
  /** Namespaces, by measurement. */
  private namespaces: (string | undefined)[] = []

  of(namespace: string): number {
    return this.counts.get(namespace) ?? 0
  }

  add(measurement: number, namespace: string, series = 1): void {
    this.namespaces[measurement] = namespace
    this.counts.set(namespace, this.of(namespace) + series)
  }

  /** A series of a measurement goes; one of whose measurement nothing was added does not count. */
  remove(measurement: number): void {
    const namespace = this.namespaces[measurement]
    if (namespace === undefined) return
    const left = this.of(namespace) - 1
    if (left > 0) this.counts.set(namespace, left)
    else this.counts.delete(namespace)
  }

  /** Undoes `remove`. */
  putBack(measurement: number): void {
    const namespace = this.namespaces[measurement]
    if (namespace !== undefined) this.add(measurement, namespace)
  }

  clear(): void {
    this.counts.clear()
    this.namespaces = []
  }
}
