/** Texts by key in the order of UTF-8: chunks of sorted keys, so that neither a write nor the beginning of a list depends on how many there are. */
import type { StateRange } from 'svcdb'
import { hasSurrogate, type StateTexts, type TextEntry, utf8Order } from '../common/state-draft.ts'

const CHUNK = 512

export class SortedTexts implements StateTexts {
  private readonly byKey = new Map<string, string>()
  /** None is empty but an only one. */
  private readonly chunks: string[][] = [[]]
  /** Cheaper as long as it gives the same order. */
  private order: (a: string, b: string) => number = utf16Order

  text(key: string): string | undefined {
    return this.byKey.get(key)
  }

  texts({ prefix = '', start = '', end, limit = Number.POSITIVE_INFINITY }: StateRange): TextEntry[] {
    this.look(`${prefix}${start}${end ?? ''}`)
    const { order } = this
    const from = order(start, prefix) > 0 ? start : prefix
    const found: TextEntry[] = []
    let chunk = this.chunkOf(from)
    for (let index = placeOf(this.chunks[chunk], from, order); found.length < limit; index++) {
      if (index >= this.chunks[chunk].length) {
        if (++chunk >= this.chunks.length) break
        index = -1
        continue
      }
      const key = this.chunks[chunk][index]
      if (!key.startsWith(prefix) || (end !== undefined && order(key, end) >= 0)) break
      found.push({ key, text: this.byKey.get(key) as string })
    }
    return found
  }

  set(key: string, text: string): void {
    const isNew = !this.byKey.has(key)
    this.byKey.set(key, text)
    if (!isNew) return
    this.look(key)
    const at = this.chunkOf(key)
    const chunk = this.chunks[at]
    chunk.splice(placeOf(chunk, key, this.order), 0, key)
    if (chunk.length > CHUNK) this.chunks.splice(at + 1, 0, chunk.splice(CHUNK / 2))
  }

  delete(key: string): void {
    if (!this.byKey.delete(key)) return
    const at = this.chunkOf(key)
    const chunk = this.chunks[at]
    chunk.splice(placeOf(chunk, key, this.order), 1)
    if (chunk.length === 0 && this.chunks.length > 1) this.chunks.splice(at, 1)
  }

  /** Keys that there are have one order by either as long as none has half of a character. */
  private look(text: string): void {
    if (this.order === utf16Order && hasSurrogate(text)) this.order = utf8Order
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

const utf16Order = (a: string, b: string): number => (a < b ? -1 : a === b ? 0 : 1)

/** Of the first key that is not before. */
function placeOf(keys: readonly string[], key: string, order: (a: string, b: string) => number): number {
  let [low, high] = [0, keys.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (order(keys[middle], key) < 0) low = middle + 1
    else high = middle
  }
  return low
}
