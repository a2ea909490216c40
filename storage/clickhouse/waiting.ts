/** Bytes of rows that wait for ClickHouse, or are on their way, by namespace. */
import { SvcError } from 'svcdb/lib/errors'
import { leavesTooLittle } from '../common/fair-share.ts'

export class WaitingBytes {
  private readonly max: number
  private readonly taken = new Map<string, number>()
  private sum = 0

  constructor(max: number) {
    this.max = max
  }

  get total(): number {
    return this.sum
  }

  /** @throws BACKPRESSURE when as much waits as may, or of the namespace so much that others would be left without. Without a name it is the only one. */
  requireRoom(namespace: string): void {
    const limit = `clickhouse.max_waiting_bytes is ${this.max}`
    if (this.sum >= this.max) throw new SvcError('BACKPRESSURE', `cannot write: ${this.sum} bytes wait for ClickHouse, ${limit}; send again later`)
    const own = this.taken.get(namespace) ?? 0
    if (leavesTooLittle(namespace, own, this.max - this.sum))
      throw new SvcError(
        'BACKPRESSURE',
        `cannot write: rows of namespace "${namespace}" are ${own} of ${this.sum} bytes that wait for ClickHouse, ${limit}, and the rest is left to others; send again later`,
      )
  }

  add(namespace: string, bytes: number): void {
    const own = (this.taken.get(namespace) ?? 0) + bytes
    if (own === 0) this.taken.delete(namespace)
    else this.taken.set(namespace, own)
    this.sum += bytes
  }
}
