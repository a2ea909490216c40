/** The worked examples of docs/formats/histogram.md are what the code reads and writes. */
import { readFileSync } from 'node:fs'
import { checkHistogram, decodeHistogram, encodeHistogram, isStaleHistogram, type NativeHistogram } from 'svcdb/lib/histogram'
import t from 'tap'

const page = readFileSync(new URL('../../docs/formats/histogram.md', import.meta.url), 'utf8')
const fence = (name: string): string => new RegExp(`\`\`\`${name}\\n([^\`]*)\`\`\``).exec(page)?.[1] ?? ''

for (const name of ['integers', 'doubles']) {
  t.test(`the example of ${name}`, async (t) => {
    const bytes = new Uint8Array(Buffer.from(fence(`hex ${name}`).replace(/\s/g, ''), 'hex'))
    const example = JSON.parse(fence(`json ${name}`)) as NativeHistogram
    const { positiveCounts, negativeCounts, customBounds } = example
    const wanted: NativeHistogram = {
      ...example,
      positiveCounts: Float64Array.from(positiveCounts),
      negativeCounts: Float64Array.from(negativeCounts),
      customBounds: Float64Array.from(customBounds),
    }
    t.same(decodeHistogram(bytes), wanted)
    t.same(encodeHistogram(wanted), bytes)
    t.equal(checkHistogram(wanted), undefined)
  })
}

t.test('the staleness marker', async (t) => {
  const hex = /the two bytes `([^`]+)`/.exec(page)?.[1] ?? ''
  t.ok(isStaleHistogram(new Uint8Array(Buffer.from(hex.replace(/\s/g, ''), 'hex'))))
})
