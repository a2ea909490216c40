/**
 * Whoever has held the loop for much longer than a turn, by what cannot be interrupted, rests for as long while others have work under way. Turns alone would not do: work
 * that comes back to the loop often, as a statement does from each call of a library, would wait for another long turn each time.
 */

export class Rests {
  private readonly until = new Map<string, number>()
  /** How much of each owner is under way. */
  private readonly underWay = new Map<string, number>()

  began(owner: string): void {
    this.underWay.set(owner, (this.underWay.get(owner) ?? 0) + 1)
  }

  ended(owner: string): void {
    const left = (this.underWay.get(owner) ?? 0) - 1
    if (left > 0) this.underWay.set(owner, left)
    else this.underWay.delete(owner)
  }

  /** @param ms for how long the owner has held the loop, longer than a turn, until now. */
  held(owner: string | undefined, ms: number, now: number): void {
    if (owner === undefined) return
    for (const [other, until] of this.until) if (until <= now) this.until.delete(other)
    this.until.set(owner, now + ms)
  }

  /** Milliseconds that it still rests; 0 = its work may go on. */
  left(owner: string | undefined, now: number): number {
    if (owner === undefined || this.until.size === 0) return 0
    const left = (this.until.get(owner) ?? 0) - now
    return left > 0 && this.hasOthers(owner) ? left : 0
  }

  private hasOthers(owner: string): boolean {
    return this.underWay.size > (this.underWay.has(owner) ? 1 : 0)
  }
}
