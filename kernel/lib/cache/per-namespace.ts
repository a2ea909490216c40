/** One value for each namespace, such as a decoder with its table of known series: made when it is first asked for, kept for those used last. */
export class PerNamespace<T> {
  private readonly most: number
  private readonly make: (namespace: string) => T
  /** In order of use, the longest unused first. */
  private readonly kept = new Map<string, T>()

  constructor(most: number, make: (namespace: string) => T) {
    this.most = most
    this.make = make
  }

  get(namespace: string): T {
    const { kept } = this
    const value = kept.get(namespace) ?? this.make(namespace)
    kept.delete(namespace)
    kept.set(namespace, value)
    if (kept.size > this.most) kept.delete(kept.keys().next().value as string)
    return value
  }
}
