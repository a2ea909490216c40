/** Texts by key in the order of UTF-8: chunks of sorted keys, so that neither a write nor the beginning of a list depends on how many there are. */
import type { StateRange } from 'svcdb'
import { type StateTexts, type TextEntry, utf8Order } from '../common/state-draft.ts'

const CHUNK = 512

export class SortedTexts implements StateTexts {
  private readonly byKey = new Map<string, string>()
  /** None is empty but an only one. */
  private readonly chunks: string[][] = [[]]

  text(key: string): string | undefined {
    return this.byKey.get(key)
  }

  texts({ prefix = '', start = '', end, limit = Number.POSITIVE_INFINITY }: StateRange): TextEntry[] {
    const from = utf8Order(start, prefix) > 0 ? start : prefix
    const found: TextEntry[] = []
    let chunk = this.chunkOf(from)
    for (let index = placeOf(this.chunks[chunk], from); found.length < limit; index++) {
      if (index >= this.chunks[chunk].length) {
        if (++chunk >= this.chunks.length) break
        index = -1
        continue
      }
      const key = this.chunks[chunk][index]
      if (!key.startsWith(prefix) || (end !== undefined && utf8Order(key, end) >= 0)) break
      found.push({ key, text: this.byKey.get(key) as string })
    }
    return found
  }

  set(key: string, text: string): void {
    const isNew = !this.byKey.has(key)
    this.byKey.set(key, text)
    if (!isNew) return
    const at = this.chunkOf(key)
    const chunk = this.chunks[at]
    chunk.splice(placeOf(chunk, key), 0, key)
    if (chunk.length > CHUNK) this.chunks.splice(at + 1, 0, chunk.splice(CHUNK / 2))
  }

  delete(key: string): void {
    if (!this.byKey.delete(key)) return
    const at = this.chunkOf(key)
    const chunk = this.chunks[at]
    chunk.splice(placeOf(chunk, key), 1)
    if (chunk.length === 0 && this.chunks.length > 1) this.chunks.splice(at, 1)
  }

  /** The last one that begins at the key or before it; else the first. */
  private chunkOf(key: string): number {
    let [low, high] = [0, this.chunks.length - 1]
    while (low < high) {
      const middle = (low + high + 1) >> 1
      if (utf8Order(this.chunks[middle][0], key) <= 0) low = middle
      else high = middle - 1
    }
    return low
  }
}

/** Of the first key that is not before. */
function placeOf(keys: readonly string[], key: string): number {
  let [low, high] = [0, keys.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (utf8Order(keys[middle], key) < 0) low = middle + 1
    else high = middle
  }
  return low
}
