/** What waits for something that is there once: owners take turns, so that whoever has much waits for itself, and of each owner the oldest comes first. */
export class OwnerQueue<T, Owner = string> {
  /** The owner whose turn is next first. */
  private readonly waiting = new Map<Owner, T[]>()

  /** What waits of an owner, the oldest first. */
  of(owner: Owner): readonly T[] {
    return this.waiting.get(owner) ?? []
  }

  push(owner: Owner, item: T): void {
    const own = this.waiting.get(owner)
    if (own === undefined) this.waiting.set(owner, [item])
    else own.push(item)
  }

  /** Takes the next one; undefined when none waits. @param mayGo owners of whom it says no are passed over, and keep their places. */
  shift(mayGo?: (owner: Owner) => boolean): T | undefined {
    for (const [owner, items] of this.waiting) {
      if (mayGo?.(owner) === false) continue
      const item = items.shift()
      this.waiting.delete(owner)
      if (items.length > 0) this.waiting.set(owner, items)
      return item
    }
    return undefined
  }

  /** Those of whom something waits, the next first. */
  owners(): Iterable<Owner> {
    return this.waiting.keys()
  }
}
