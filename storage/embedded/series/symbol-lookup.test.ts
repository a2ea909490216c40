import t from 'tap'
import type { SeriesArrays } from '../threads/series-layout.ts'
import { Shared } from '../threads/shared-header.ts'
import { findSymbol, NO_SYMBOL } from './symbol-lookup.ts'
import { SymbolTable } from './symbols.ts'

const KEY = { low: 17, high: -5 }

function setUp() {
  const shared = new Int32Array(new SharedArrayBuffer(Shared.SLOTS * 4))
  const table = new SymbolTable(shared, KEY, () => {})
  const intern = (text: string): number => {
    const bytes = new TextEncoder().encode(text)
    return table.intern(bytes, 0, bytes.length)
  }
  const arrays = (): SeriesArrays => ({
    measurement: new Int32Array(0),
    offsets: new Int32Array(1),
    tags: new Int32Array(0),
    symbolOffsets: table.offsets,
    symbolBytes: table.bytes,
    symbolSlots: table.slots,
  })
  return { table, arrays, intern }
}

t.test('finds every text by its bytes, and no other', async (t) => {
  const { table, arrays, intern } = setUp()
  const texts = ['', 'a', 'b', 'ab', 'ä', '😀', 'x'.repeat(300)]
  for (const text of texts) intern(text)
  for (const text of texts) t.equal(findSymbol(KEY, text, arrays(), table.count), table.symbolOf(text), JSON.stringify(text.slice(0, 5)))
  for (const text of ['aa', 'A', 'x'.repeat(299), 'none']) t.equal(findSymbol(KEY, text, arrays(), table.count), NO_SYMBOL)
})

t.test('follows as symbols are added, past its first size', async (t) => {
  const { table, arrays, intern } = setUp()
  for (let i = 0; i < 5000; i++) {
    const text = `value-${i}`
    const before = table.count
    if (i % 97 === 0) t.equal(findSymbol(KEY, text, arrays(), before), NO_SYMBOL, 'not there yet')
    intern(text)
    if (i % 97 === 0) t.equal(findSymbol(KEY, text, arrays(), table.count), before)
  }
  for (let i = 0; i < 5000; i++)
    if (findSymbol(KEY, `value-${i}`, arrays(), table.count) !== table.symbolOf(`value-${i}`)) return t.fail(`value-${i} is not found`)
})

t.test('symbols whose bytes lie beyond the array held here are met once a larger one is', async (t) => {
  const { table, arrays, intern } = setUp()
  intern('early')
  const old = arrays()
  const long = 'y'.repeat(old.symbolBytes.length)
  intern(long)
  intern('late')
  t.equal(old.symbolOffsets, table.offsets, 'the offsets are the same array still')
  t.equal(findSymbol(KEY, 'late', old, table.count), NO_SYMBOL, 'the message about the larger array is under way')
  t.equal(findSymbol(KEY, 'early', old, table.count), table.symbolOf('early'))
  t.equal(findSymbol(KEY, 'late', arrays(), table.count), table.symbolOf('late'))
  t.equal(findSymbol(KEY, long, arrays(), table.count), table.symbolOf(long))
})
