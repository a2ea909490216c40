/** What one run of a transaction's body over a state store reads and writes. Values are JSON text, keys are ordered by their UTF-8. */
import type { StateEntry, StateRange, StateTransaction } from 'svcdb'

export interface TextEntry {
  key: string
  /** JSON. */
  text: string
}

/** What a draft reads: an owner's keys as of now. */
export interface StateTexts {
  text(key: string): string | undefined
  /** In order. */
  texts(range: StateRange): TextEntry[]
}

export class Draft implements StateTransaction {
  /** By key: JSON, undefined = deleted. */
  readonly writes = new Map<string, string | undefined>()
  private readonly source: StateTexts
  private readonly gets = new Map<string, string | undefined>()
  private readonly lists: { range: StateRange; found: TextEntry[] }[] = []
  private open = true
  /** A key was seen with two values. */
  private torn = false

  constructor(source: StateTexts) {
    this.source = source
  }

  async get<T>(key: string): Promise<T | undefined> {
    this.requireOpen()
    if (this.writes.has(key)) return parsed<T>(this.writes.get(key))
    const text = this.source.text(key)
    if (this.gets.has(key) && this.gets.get(key) !== text) this.torn = true
    this.gets.set(key, text)
    return parsed<T>(text)
  }

  async list<T>(range: StateRange = {}): Promise<StateEntry<T>[]> {
    this.requireOpen()
    const { prefix = '', start = '', end, limit } = range
    const written = [...this.writes].filter(([key]) => key.startsWith(prefix) && utf8Order(key, start) >= 0 && (end === undefined || utf8Order(key, end) < 0))
    // What was deleted here may be among the first ones there: so many more are read.
    const deleted = written.filter(([, text]) => text === undefined).length
    const read = limit === undefined ? { ...range } : { ...range, limit: limit + deleted }
    const found = this.source.texts(read)
    this.lists.push({ range: read, found })
    if (written.length === 0) return found.map(entryOf<T>)
    const merged = new Map(found.map(({ key, text }) => [key, text]))
    for (const [key, text] of written) {
      if (text === undefined) merged.delete(key)
      else merged.set(key, text)
    }
    const all = [...merged].sort(([a], [b]) => utf8Order(a, b)).map(([key, text]) => entryOf<T>({ key, text }))
    return limit === undefined ? all : all.slice(0, limit)
  }

  put(key: string, value: unknown): void {
    this.requireOpen()
    const text = JSON.stringify(value)
    if (text === undefined) throw new TypeError(`cannot store undefined under "${key}"; use delete`)
    this.writes.set(key, text)
  }

  delete(key: string): void {
    this.requireOpen()
    this.writes.set(key, undefined)
  }

  /** Whether something that was read is another now. */
  isStale(now: StateTexts): boolean {
    if (this.torn) return true
    for (const [key, text] of this.gets) if (now.text(key) !== text) return true
    return this.lists.some(({ range, found }) => !isSame(now.texts(range), found))
  }

  end(): void {
    this.open = false
  }

  private requireOpen(): void {
    if (!this.open) throw new Error('cannot use a state transaction: it has ended; its body must await all that it does')
  }
}

export const parsed = <T>(text: string | undefined): T | undefined => (text === undefined ? undefined : (JSON.parse(text) as T))
export const entryOf = <T>({ key, text }: TextEntry): StateEntry<T> => ({ key, value: JSON.parse(text) as T })

function isSame(a: readonly TextEntry[], b: readonly TextEntry[]): boolean {
  return a.length === b.length && a.every(({ key, text }, i) => key === b[i].key && text === b[i].text)
}

const SURROGATE = /[\ud800-\udfff]/

/** Whether there is half of a character beyond U+FFFF: without one, the order of UTF-16 is that of UTF-8. */
export const hasSurrogate = (text: string): boolean => SURROGATE.test(text)

export function utf8Order(a: string, b: string): number {
  if (a === b) return 0
  if (hasSurrogate(a) || hasSurrogate(b)) return Buffer.compare(Buffer.from(a), Buffer.from(b))
  return a < b ? -1 : 1
}
