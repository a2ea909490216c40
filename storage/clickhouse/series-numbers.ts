/**
 * Numbers of series for readers: in the order of their ids, as ClickHouse sorts them, and the same for as long as the table of a life is kept. A number is the
 * upper bits of the id; of the few that share them, one moves to a place beside.
 */
import { placeOfId } from './series-id.ts'

/** Numbers kept in all; above, tables are begun anew. */
const MAX_KEPT = 4_000_000

export class SeriesNumbers {
  /** Rises when numbers have been given another meaning: what readers derived from them is void. */
  generation = 0
  private readonly lives = new Map<number, { numbers: Map<string, number>; taken: Map<number, string> }>()
  private kept = 0

  /** @param keys ids, ascending as numbers. @returns a number for each, ascending. */
  of(life: number, keys: readonly string[]): Int32Array {
    if (this.kept > MAX_KEPT) this.clear()
    const numbers = this.assign(life, keys)
    if (isAscending(numbers)) return numbers
    this.clear()
    return this.assign(life, keys)
  }

  private clear(): void {
    this.lives.clear()
    this.kept = 0
    this.generation++
  }

  private assign(life: number, keys: readonly string[]): Int32Array {
    const { numbers, taken } = this.lives.get(life) ?? { numbers: new Map<string, number>(), taken: new Map<number, string>() }
    this.lives.set(life, { numbers, taken })
    const out = new Int32Array(keys.length)
    for (const [i, key] of keys.entries()) {
      let number = numbers.get(key)
      if (number === undefined) {
        number = Math.max(placeOfId(key), i === 0 ? 0 : out[i - 1] + 1)
        while (taken.has(number)) number++
        numbers.set(key, number)
        taken.set(number, key)
        this.kept++
      }
      out[i] = number
    }
    return out
  }
}

function isAscending(numbers: Int32Array): boolean {
  for (let i = 1; i < numbers.length; i++) if (numbers[i] <= numbers[i - 1]) return false
  return true
}
