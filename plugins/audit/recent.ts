/** The newest lines of the audit log, in memory. */
const MAX_BYTES = 4 * 1024 * 1024

export class Recent {
  private readonly most: number
  private lines: string[] = []
  private from = 0
  private length = 0

  constructor(most: number) {
    this.most = most
  }

  add(line: string): void {
    this.lines.push(line)
    this.length += line.length
    while (this.lines.length - this.from > this.most || this.length > MAX_BYTES) this.length -= this.lines[this.from++].length
    // The front is let go now and then: taking one off the front each time would move all others.
    if (this.from > this.lines.length / 2) {
      this.lines = this.lines.slice(this.from)
      this.from = 0
    }
  }

  /** The last ones, oldest first. */
  newest(count: number): string[] {
    return this.lines.slice(Math.max(this.from, this.lines.length - count))
  }
}
