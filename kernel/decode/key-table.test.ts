import t from 'tap'
import { seeded } from '../testkit/random.ts'
import { KeyTable } from './key-table.ts'

const viewOf = (bytes: Uint8Array) => new DataView(bytes.buffer, bytes.byteOffset, bytes.length)

t.test('a key is found where it was added, and one that differs in any byte is not', async (t) => {
  const random = seeded(3)
  for (let length = 1; length <= 130; length++) {
    const table = new KeyTable(1 << 20, 11)
    // Not at the beginning, so that words lie across their boundaries; one byte behind it, as `matchEnd` needs.
    const bytes = Uint8Array.from({ length: length + 4 }, () => random() * 256)
    const view = viewOf(bytes)
    table.add(Uint8Array.of(1, 2, 3), 0, 3, 5, 1, 1)
    const entry = table.add(bytes, 3, 3 + length, table.hashOf(view, 3, 3 + length), 42, 7)
    t.equal(table.series[entry], 42)
    if (table.find(view, 3, 3 + length, table.hashOf(view, 3, 3 + length)) !== entry) t.fail(`${length} bytes are not found`)
    if (table.matchEnd(entry, view, 3) !== 3 + length) t.fail(`${length} bytes do not match`)
    for (let at = 3; at < 3 + length; at++) {
      for (const bit of [0, 7]) {
        bytes[at] ^= 1 << bit
        if (table.matchEnd(entry, view, 3) !== -1) t.fail(`a key of ${length} bytes matches one that differs at ${at - 3}`)
        if (table.find(view, 3, 3 + length, table.hashOf(viewOf(bytes), 3, 3 + length)) !== -1) t.fail('another key is found')
        bytes[at] ^= 1 << bit
      }
    }
    t.equal(table.matchEnd(entry, viewOf(bytes.subarray(0, 3 + length)), 3), -1, 'the view ends with the key')
  }
})

t.test('equal hashes are told apart by the bytes', async (t) => {
  const table = new KeyTable(1 << 20, 11)
  const keys = Array.from({ length: 20 }, (_, i) => Buffer.alloc(40, i))
  const entries = keys.map((key, i) => table.add(key, 0, 40, 99, i, 0))
  for (const [i, key] of keys.entries()) t.equal(table.find(viewOf(key), 0, 40, 99), entries[i])
  t.equal(table.find(viewOf(Buffer.alloc(40, 77)), 0, 40, 99), -1)
})
