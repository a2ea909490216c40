/** Keys in order, in chunks: neither a change nor a page of them depends on how many there are. */

const CHUNK = 512

export type KeyOrder = (a: string, b: string) => number

/** What `<` says. */
export const utf16Order: KeyOrder = (a, b) => (a < b ? -1 : a === b ? 0 : 1)

export class SortedKeys {
  /** Another may take its place as long as the keys that there are have the same order by both. */
  order: KeyOrder = utf16Order
  /** None is empty but an only one. */
  private readonly chunks: string[][] = [[]]
  private count = 0

  get size(): number {
    return this.count
  }

  /** Does nothing with one that is there. */
  add(key: string): void {
    const at = this.chunkOf(key)
    const chunk = this.chunks[at]
    const place = placeOf(chunk, key, this.order)
    if (chunk[place] === key) return
    chunk.splice(place, 0, key)
    this.count++
    if (chunk.length > CHUNK) this.chunks.splice(at + 1, 0, chunk.splice(CHUNK / 2))
  }

  /** Does nothing with one that is not there. */
  delete(key: string): void {
    const at = this.chunkOf(key)
    const chunk = this.chunks[at]
    const place = placeOf(chunk, key, this.order)
    if (chunk[place] !== key) return
    chunk.splice(place, 1)
    this.count--
    if (chunk.length === 0 && this.chunks.length > 1) this.chunks.splice(at, 1)
  }

  /** From the first that is not before the key. Nothing may change while they are read. */
  *from(key: string): Generator<string> {
    const at = this.chunkOf(key)
    const place = placeOf(this.chunks[at], key, this.order)
    for (let i = at; i < this.chunks.length; i++) for (let j = i === at ? place : 0; j < this.chunks[i].length; j++) yield this.chunks[i][j]
  }

  /** So many, or what there is, after the first `offset`. */
  page(offset: number, limit: number): string[] {
    const found: string[] = []
    let left = offset
    for (const chunk of this.chunks) {
      if (found.length >= limit) break
      for (let i = left; i < chunk.length && found.length < limit; i++) found.push(chunk[i])
      left = Math.max(0, left - chunk.length)
    }
    return found
  }

  /** The last one that begins at the key or before it; else the first. */
  private chunkOf(key: string): number {
    let [low, high] = [0, this.chunks.length - 1]
    while (low < high) {
      const middle = (low + high + 1) >> 1
      if (this.order(this.chunks[middle][0], key) <= 0) low = middle
      else high = middle - 1
    }
    return low
  }
}

/** Of the first key that is not before. */
function placeOf(keys: readonly string[], key: string, order: KeyOrder): number {
  let [low, high] = [0, keys.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (order(keys[middle], key) < 0) low = middle + 1
    else high = middle
  }
  return low
}
