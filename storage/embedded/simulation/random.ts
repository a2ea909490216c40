/** Everything random of a run comes from one seed through this. */
import { type Random as Source, seeded } from 'svcdb/lib/random'

export class Random {
  private readonly source: Source

  constructor(seed: number) {
    this.source = seeded(seed)
  }

  /** In [0, 1). */
  next(): number {
    return this.source()
  }

  /** In [0, n). */
  int(n: number): number {
    return Math.floor(this.source() * n)
  }

  /** In [from, to]. */
  between(from: number, to: number): number {
    return from + this.int(to - from + 1)
  }

  chance(p: number): boolean {
    return this.source() < p
  }

  pick<T>(list: readonly T[]): T {
    return list[this.int(list.length)]
  }

  /** Small numbers are as likely as large ones. */
  logarithmic(from: number, to: number): number {
    return Math.floor(from * (to / from) ** this.source())
  }

  /** A stream of its own: what draws from it does not change what others draw. */
  fork(): Random {
    return new Random(this.int(2 ** 32))
  }
}
