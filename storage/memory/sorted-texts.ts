/** Texts by key in the order of UTF-8: neither a write nor the beginning of a list depends on how many there are. */
import type { StateRange } from 'svcdb'
import { SortedKeys, utf16Order } from '../common/sorted-keys.ts'
import { hasSurrogate, type StateTexts, type TextEntry, utf8Order } from '../common/state-draft.ts'

export class SortedTexts implements StateTexts {
  private readonly byKey = new Map<string, string>()
  private readonly keys = new SortedKeys()

  text(key: string): string | undefined {
    return this.byKey.get(key)
  }

  texts({ prefix = '', start = '', end, limit = Number.POSITIVE_INFINITY }: StateRange): TextEntry[] {
    this.look(`${prefix}${start}${end ?? ''}`)
    const { order } = this.keys
    const found: TextEntry[] = []
    if (limit <= 0) return found
    for (const key of this.keys.from(order(start, prefix) > 0 ? start : prefix)) {
      if (!key.startsWith(prefix) || (end !== undefined && order(key, end) >= 0)) break
      if (found.push({ key, text: this.byKey.get(key) as string }) >= limit) break
    }
    return found
  }

  set(key: string, text: string): void {
    const isNew = !this.byKey.has(key)
    this.byKey.set(key, text)
    if (!isNew) return
    this.look(key)
    this.keys.add(key)
  }

  delete(key: string): void {
    if (this.byKey.delete(key)) this.keys.delete(key)
  }

  /** Keys that there are have one order by either as long as none has half of a character. */
  private look(text: string): void {
    if (this.keys.order === utf16Order && hasSurrogate(text)) this.keys.order = utf8Order
  }
}
