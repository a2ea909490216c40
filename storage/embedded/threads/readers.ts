/** Who may read segment files now: jobs, and leases of backups. A file that is retired stays until those that were there then have ended. */
export class Readers {
  private nextId = 1
  private readonly running = new Set<number>()
  private readonly waiting: { after: number; done: () => void }[] = []

  /** @returns the reader's number. */
  begin(): number {
    const id = this.nextId++
    this.running.add(id)
    return id
  }

  end(id: number): void {
    this.running.delete(id)
    if (this.waiting.length === 0) return
    const oldest = Math.min(...this.running, Number.MAX_SAFE_INTEGER)
    for (let i = this.waiting.length - 1; i >= 0; i--) {
      if (this.waiting[i].after > oldest) continue
      const [{ done }] = this.waiting.splice(i, 1)
      done()
    }
  }

  /** Counts as a reader until the returned function is called: files retired meanwhile stay. */
  lease(): () => void {
    const id = this.begin()
    return () => this.end(id)
  }

  get count(): number {
    return this.running.size
  }

  /** Calls `done` when every reader that is there now has ended. */
  afterAll(done: () => void): void {
    if (this.running.size === 0) return done()
    this.waiting.push({ after: this.nextId, done })
  }
}
