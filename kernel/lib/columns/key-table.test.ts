import t from 'tap'
import { seeded } from '../random/index.ts'
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

t.test('keys that collide under every seed cost a bounded search, and others few of theirs', async (t) => {
  for (const seed of [0, 11, 0x12345678]) {
    const table = new KeyTable(1 << 20, seed)
    // Changes of two words that cancel each other whatever the state before them is: the hash is quick, and not strong.
    const keys = Array.from({ length: 1024 }, (_, choice) => {
      const key = Buffer.alloc(80, 97)
      for (let block = 0; block < 10; block++) {
        if (((choice >> block) & 1) === 0) continue
        key[block * 8 + 3] ^= 0x80
        key[block * 8 + 6] ^= 0x01
        key[block * 8 + 7] ^= 0x80
      }
      return key
    })
    const hashes = keys.map((key) => table.hashOf(viewOf(key), 0, key.length))
    t.equal(new Set(hashes).size, 1, 'they do collide')
    const entries = keys.map((key, i) => table.add(key, 0, key.length, hashes[i], i, 0))
    t.equal(entries.filter((entry) => entry >= 0).length, 32, 'so many steps and no more: the others are not kept')
    for (const [i, key] of keys.entries()) t.equal(table.find(viewOf(key), 0, key.length, hashes[i]), entries[i])
    let kept = 0
    for (let i = 0; i < 1000; i++) {
      const key = Buffer.from(`cpu,host=h${i} `)
      const hash = table.hashOf(viewOf(key), 0, key.length)
      table.add(key, 0, key.length, hash, i, 1)
      const entry = table.find(viewOf(key), 0, key.length, hash)
      if (entry >= 0 && table.series[entry] === i) kept++
    }
    t.ok(kept > 950, `${kept} of 1000 other keys are kept`)
  }
})
