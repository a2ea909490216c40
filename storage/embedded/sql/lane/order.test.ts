/** Positions in order and ranks of texts, against plain sorts. */
import t from 'tap'
import { Random } from '../../../conformance/random.ts'
import { type OrderTerm, sortedPositions, textRanks } from './order.ts'

const seed = Number(process.env.SVC_SEED ?? Date.now() % 1e9)

t.test('rows are in order by their terms, and then as they were, however many ranks there are', (t) => {
  const random = new Random(seed)
  for (let round = 0; round < 500; round++) {
    const n = random.below(200)
    const terms = Array.from({ length: 1 + random.below(3) }, (): OrderTerm => {
      const size = random.pick([1, 2, 50, 3000, 2 ** 40])
      const counted = random.chance(0.9)
      return {
        ranks: Float64Array.from({ length: n }, () => (counted ? random.below(Math.min(size, 2 ** 31)) : random.below(100) - 50.5)),
        size: counted ? size : undefined,
      }
    })
    const expected = Array.from({ length: n }, (_, i) => i).sort(
      (a, b) => terms.map(({ ranks }) => ranks[a] - ranks[b]).find((difference) => difference !== 0) ?? a - b,
    )
    if (JSON.stringify(Array.from(sortedPositions(terms, n))) !== JSON.stringify(expected)) return void t.fail(`SVC_SEED=${seed}, round ${round}`)
  }
  t.pass()
  t.end()
})

t.test('texts are ranked by their bytes, also once a list has grown in place', (t) => {
  const random = new Random(seed)
  const letter = (): string => random.pick(['a', 'b', 'Z', '0', 'é', '\ue000', '\u{1f600}', '\uffff'])
  for (let round = 0; round < 300; round++) {
    const texts: string[] = []
    for (let grown = 0; grown < 3; grown++) {
      const known = new Set(texts)
      for (let i = 0; i < 20; i++) {
        const text = Array.from({ length: random.below(4) }, letter).join('')
        if (!known.has(text)) texts.push(text)
        known.add(text)
      }
      const some = random.chance(0.5)
      const codes = Int32Array.from([...texts.keys()].filter(() => !some || random.chance(0.6)))
      const ranks = textRanks({ texts, codes })
      const byRank = [...codes].sort((a, b) => ranks[a] - ranks[b]).map((code) => texts[code])
      const byBytes = [...codes].map((code) => texts[code]).sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
      const inRange = [...codes].every((code) => ranks[code] >= 0 && ranks[code] < texts.length)
      if (!inRange || JSON.stringify(byRank) !== JSON.stringify(byBytes)) return void t.fail(`SVC_SEED=${seed}, round ${round}`)
    }
  }
  t.pass()
  t.end()
})
