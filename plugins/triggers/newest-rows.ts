/** The newest times of some, kept in bounded memory: a heap whose root is the oldest that is kept. */
export class NewestRows {
  private readonly times: bigint[] = []
  private readonly most: number

  constructor(most: number) {
    this.most = most
  }

  get size(): number {
    return this.times.length
  }

  add(time: bigint): void {
    const { times } = this
    if (times.length < this.most) {
      times.push(time)
      this.up(times.length - 1)
    } else if (times.length > 0 && time > times[0]) {
      times[0] = time
      this.down()
    }
  }

  /** Oldest first. */
  sorted(): bigint[] {
    return this.times.toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0))
  }

  private up(from: number): void {
    const { times } = this
    for (let i = from; i > 0; ) {
      const parent = (i - 1) >> 1
      if (times[parent] <= times[i]) return
      this.swap(i, parent)
      i = parent
    }
  }

  private down(): void {
    const { times } = this
    for (let i = 0; ; ) {
      const [left, right] = [2 * i + 1, 2 * i + 2]
      let least = i
      if (left < times.length && times[left] < times[least]) least = left
      if (right < times.length && times[right] < times[least]) least = right
      if (least === i) return
      this.swap(i, least)
      i = least
    }
  }

  private swap(i: number, j: number): void {
    const { times } = this
    const [a, b] = [times[i], times[j]]
    times[i] = b
    times[j] = a
  }
}
