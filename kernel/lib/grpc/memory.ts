/**
 * Memory that the calls of one listener hold for their clients: messages that are not whole yet or are being answered, answers that were not
 * taken, and calls that nobody has been admitted for. HTTP/2's windows bound what one call holds, not what all together do. When the limit is
 * reached, the call whose client has done nothing for longest gives way, so that calls that get on are served beside any number that do not.
 */
export interface Holder {
  /** Waits for its client, with a message begun or an answer not taken: ending it frees what it holds. */
  readonly waits: boolean
  /** Ends it; what it held was given back already. */
  giveWay(): void
}

export class CallMemory {
  private used = 0
  private readonly max: number
  /** In the order in which they last got on, the longest idle first. */
  private readonly held = new Map<Holder, number>()

  constructor(max: number) {
    this.max = max
  }

  get bytes(): number {
    return this.used
  }

  /** The holder has got on, and holds so many bytes more. It may itself be the one that gives way. */
  take(holder: Holder, bytes: number): void {
    this.set(holder, (this.held.get(holder) ?? 0) + bytes)
    if (this.used <= this.max) return
    for (const longestIdle of this.held.keys()) {
      if (!longestIdle.waits && longestIdle !== holder) continue
      this.release(longestIdle)
      longestIdle.giveWay()
      if (this.used <= this.max) return
    }
  }

  /** The holder has got on, and holds so many bytes less. */
  give(holder: Holder, bytes: number): void {
    const before = this.held.get(holder)
    if (before !== undefined) this.set(holder, Math.max(0, before - bytes))
  }

  /** The holder holds nothing any more. */
  release(holder: Holder): void {
    this.used -= this.held.get(holder) ?? 0
    this.held.delete(holder)
  }

  private set(holder: Holder, bytes: number): void {
    this.release(holder)
    if (bytes === 0) return
    this.held.set(holder, bytes)
    this.used += bytes
  }
}
