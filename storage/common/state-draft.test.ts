import type { StateRange } from 'svcdb'
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { Draft, type StateTexts, type TextEntry, utf8Order } from './state-draft.ts'

class Texts implements StateTexts {
  readonly entries = new Map<string, string>()
  /** Of the last call. */
  given = 0

  text(key: string): string | undefined {
    return this.entries.get(key)
  }

  texts({ prefix = '', start = '', end, limit = Number.POSITIVE_INFINITY }: StateRange): TextEntry[] {
    const keys = [...this.entries.keys()].filter((key) => key.startsWith(prefix) && key >= start && (end === undefined || key < end)).sort(utf8Order)
    const found = keys.slice(0, limit).map((key) => ({ key, text: this.entries.get(key) as string }))
    this.given = found.length
    return found
  }
}

const name = (n: number): string => `k/${String(n).padStart(3, '0')}`

t.test('a list in a transaction that has written is the first of all, and reads no more than it needs', async (t) => {
  for (let seed = 1; seed <= 200; seed++) {
    const random = seeded(seed)
    const below = (n: number): number => Math.floor(random() * n)
    const source = new Texts()
    for (let n = 0; n < 60; n++) if (random() < 0.6) source.entries.set(name(n), '0')
    const draft = new Draft(source)
    const model = new Map(source.entries)
    for (let writes = below(12); writes > 0; writes--) {
      const key = name(below(60))
      if (random() < 0.5) {
        draft.delete(key)
        model.delete(key)
      } else {
        draft.put(key, seed)
        model.set(key, `${seed}`)
      }
    }
    const range = {
      prefix: 'k/',
      ...(random() < 0.5 ? { start: name(below(60)) } : {}),
      ...(random() < 0.5 ? { end: name(below(60)) } : {}),
      ...(random() < 0.8 ? { limit: below(10) } : {}),
    }
    const wanted = new Texts()
    for (const [key, text] of model) wanted.entries.set(key, text)
    const found = await draft.list(range)
    t.same(
      found,
      wanted.texts(range).map(({ key, text }) => ({ key, value: JSON.parse(text) })),
      `seed ${seed}`,
    )
    if (range.limit !== undefined) t.ok(source.given <= range.limit + 12, `seed ${seed}: ${source.given} were read`)
    t.notOk(draft.isStale(source))
    const [first] = found
    if (first === undefined || !source.entries.has(first.key)) continue
    source.entries.set(first.key, '"changed"')
    t.ok(draft.isStale(source), `seed ${seed}: what the answer is made of has changed`)
  }
})
