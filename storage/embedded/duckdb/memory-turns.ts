/**
 * Flushes and merges share one limit of memory. What finds none beside others has it alone: those under way end first, and others wait. So a merge never makes a flush
 * fail, which would refuse writes; it waits for a part of a flush at most, and a flush for a slice of a merge.
 */
export class MemoryTurns {
  private readonly isOutOfMemory: (error: unknown) => boolean
  private readonly running = new Set<Promise<unknown>>()
  /** The last of those that have the memory alone, one after the other; undefined = there is none. */
  private last: Promise<unknown> | undefined

  constructor(isOutOfMemory: (error: unknown) => boolean) {
    this.isOutOfMemory = isOutOfMemory
  }

  /** Resolves with what `body` does beside others. */
  async beside<T>(body: () => Promise<T>): Promise<T> {
    while (this.last !== undefined) await this.last
    const running = body()
    const ended: Promise<unknown> = running.then(ignore, ignore).then(() => this.running.delete(ended))
    this.running.add(ended)
    return running
  }

  /** Resolves with what `body` does while nothing else does anything. */
  alone<T>(body: () => Promise<T>): Promise<T> {
    const before = this.last
    const turn = (async () => {
      await before
      await Promise.all(this.running)
      return body()
    })()
    const ended = turn.then(ignore, ignore).then(() => {
      if (this.last === ended) this.last = undefined
    })
    this.last = ended
    return turn
  }

  /** @param body may be run twice: first beside others, and alone when it has found no memory there. */
  async either<T>(body: () => Promise<T>): Promise<T> {
    try {
      return await this.beside(body)
    } catch (error) {
      if (!this.isOutOfMemory(error)) throw error
      return this.alone(body)
    }
  }
}

function ignore(): void {}
