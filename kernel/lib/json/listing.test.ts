import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { jsonListing } from './index.ts'

const numbers = (count: number): number[] => Array.from({ length: count }, (_, i) => i)

t.test('a listing is one JSON text, whatever its length', async (t) => {
  for (const count of [0, 1, 2, 100, 30_000]) {
    let text = ''
    for await (const part of jsonListing('{"items":[', numbers(count), (n) => ({ n }), `],"total":${count}}`)) text += part
    t.same(JSON.parse(text), { items: numbers(count).map((n) => ({ n })), total: count })
  }
})

t.test('items are shown as somebody reads', async (t) => {
  let asked = 0
  const listing = jsonListing(
    '[',
    numbers(1000),
    () => {
      asked++
      return 'x'.repeat(10_000)
    },
    ']',
  )
  listing.once('readable', () => {})
  for (let i = 0; i < 100; i++) await setImmediate()
  t.ok(asked > 0 && asked < 100, `${asked} without a reader`)
  let turns = 0
  const timer = setInterval(() => turns++, 0)
  let chars = 0
  for await (const part of listing) chars += String(part).length
  clearInterval(timer)
  t.equal(asked, 1000)
  t.equal(chars, 1000 * 10_003 + 1)
})
