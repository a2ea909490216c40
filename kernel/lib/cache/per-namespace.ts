/** One value for each namespace, such as a decoder with its table of known series: made when it is first asked for, kept for those used last. */
import { RecentMap } from './recent-map.ts'

/** A value for each namespace. @param most namespaces whose value is kept; that of one which was used before all others goes, and is made again when it is asked for. */
export class PerNamespace<T> {
  private readonly make: (namespace: string) => T
  private readonly kept: RecentMap<string, T>

  constructor(most: number, make: (namespace: string) => T) {
    this.make = make
    this.kept = new RecentMap(most)
  }

  get(namespace: string): T {
    const known = this.kept.get(namespace)
    if (known !== undefined) return known
    const value = this.make(namespace)
    this.kept.set(namespace, value)
    return value
  }
}
