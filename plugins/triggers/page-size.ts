/** How many signals are read at once: what is read is handled in one turn of the event loop, and signals may be large. */
import { type Signal, sizeOf } from './signal.ts'

/** Characters of a page. */
const SIZE = 524_288
/** Of the first page, whose signals may be of any size. */
const FIRST = 8

export class PageSize {
  private readonly most: number
  private known = 0
  /** Signals of the next page. */
  next: number

  /** @param most signals of a page, however small they are. */
  constructor(most: number) {
    this.most = most
    this.next = Math.min(FIRST, most)
  }

  /** Takes in how large those of a page were: the next has as many as the largest leaves room for, and not many times more than are known. */
  read(page: readonly Signal[]): void {
    if (page.length === 0) return
    const largest = page.reduce((most, signal) => Math.max(most, sizeOf(signal)), 1)
    this.known += page.length
    this.next = Math.max(1, Math.min(this.most, this.known * 4, Math.floor(SIZE / largest)))
  }
}
