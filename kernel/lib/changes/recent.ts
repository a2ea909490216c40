/**
 * What was encoded last, for others that are told of the same change at about the same time: readers that keep up come one after the other. Kept up to a number and a size,
 * the oldest goes first.
 */
import type { ChangedColumns } from './types.ts'

/** Rows of a write lie in buffers that a later one uses again: both must be the same. */
interface Kept<T> {
  series: Int32Array
  sequence: number
  key: string
  result: T
  bytes: number
}

/** Results for the changes that were encoded last. @param most results that are kept. @param mostBytes of them together. */
export class RecentlyEncoded<T> {
  private readonly most: number
  private readonly mostBytes: number
  /** The newest last. */
  private kept: Kept<T>[] = []
  private bytes = 0

  constructor(most: number, mostBytes: number) {
    this.most = most
    this.mostBytes = mostBytes
  }

  /** @param key all that the result follows from besides the change: which of its rows, their form. */
  find({ series, sequence }: ChangedColumns, key: string): T | undefined {
    const known = this.kept.findLast((one) => one.series === series && one.sequence === sequence && one.key === key)
    return known?.result
  }

  add({ series, sequence }: ChangedColumns, key: string, result: T, bytes: number): void {
    const { kept } = this
    kept.push({ series, sequence, key, result, bytes })
    this.bytes += bytes
    while (kept.length > this.most || this.bytes > this.mostBytes) this.bytes -= kept.shift()?.bytes ?? 0
  }

  clear(): void {
    this.kept = []
    this.bytes = 0
  }
}
