import t from 'tap'
import { seeded } from '../random/index.ts'
import { PAGE_BYTES, webAssembly } from '../web-assembly/index.ts'
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

t.test('keys lie in a memory that grows, and in one of their own once it cannot', async (t) => {
  const random = seeded(5)
  const table = new KeyTable(1 << 30, 11)
  const memory = new webAssembly!.Memory({ initial: 1, maximum: 6 })
  const keys: Buffer[] = []
  const entries: number[] = []
  const hash = (key: Buffer): number => table.hashOf(viewOf(key), 0, key.length)
  const add = (): void => {
    const key = Buffer.concat([Buffer.from(`${keys.length} `), Buffer.from(Uint8Array.from({ length: 20 + random() * 200 }, () => random() * 256))])
    keys.push(key)
    entries.push(table.add(key, 0, key.length, hash(key), keys.length, 0))
    const last = entries.length - 2
    if (last >= 0) table.following[entries[last]] = entries[last + 1]
  }
  for (let i = 0; i < 100; i++) add()
  table.moveTo(memory, PAGE_BYTES)
  const found = (): boolean => keys.every((key, i) => table.find(viewOf(key), 0, key.length, hash(key)) === entries[i])
  t.ok(found(), 'those from before')
  let grown = 0
  let listed = 0
  while (table.liesIn(memory)) {
    const { buffer } = memory
    add()
    if (memory.buffer !== buffer) grown++
    if (!table.liesIn(memory)) break
    const list = new Int32Array(8)
    const at = Math.floor(random() * (keys.length - 3))
    const shortest = Math.floor(random() * 60)
    const count = table.expected(entries[at], list, 0, 2, shortest)
    const next = keys.slice(at + 1, at + 3)
    const long = next.findIndex((key) => key.length < shortest)
    if (count !== (long < 0 ? 2 : long)) t.fail(`${count} keys of at least ${shortest} bytes are listed after key ${at}`)
    for (let i = 0; i < count; i++)
      if (!Buffer.from(memory.buffer, list[i * 4], list[i * 4 + 1]).equals(next[i])) t.fail(`key ${at + 1 + i} does not lie where the list says`)
    listed += count
  }
  t.ok(grown > 0 && listed > 100, `it has grown ${grown} times, ${listed} keys were listed`)
  for (let i = 0; i < 1000; i++) add()
  t.ok(found(), 'all of them')
  table.clear()
  t.equal(table.expected(entries[0], new Int32Array(4), 0, 1, 1), 0, 'after none that is gone follows another')
})

t.test('a table that grows does so in parts, and all keys are found meanwhile', async (t) => {
  const seed = Date.now() % 2 ** 31
  t.comment(`seed ${seed}`)
  const random = seeded(seed)
  const table = new KeyTable(1 << 30, seed)
  const key = Buffer.alloc(8)
  const view = viewOf(key)
  const set = (i: number): void => void key.writeUInt32LE(i, 2)
  const find = (i: number): number => {
    set(i)
    return table.find(view, 0, key.length, table.hashOf(view, 0, key.length))
  }
  /** The entry of each key; -1 = its probes were all taken. */
  const entries = new Int32Array(100_000)
  let added = 0
  const missed = new Set<number>()
  let grown = 0
  for (let i = 0; i < entries.length; i++) {
    const before = [table.series, table.group, table.following]
    set(i)
    entries[i] = table.add(key, 0, key.length, table.hashOf(view, 0, key.length), i, 0)
    if (entries[i] >= 0 && entries[i] !== added++) t.fail(`key ${i} is entry ${entries[i]}`)
    const after = [table.series, table.group, table.following]
    const at = after.filter((numbers, place) => numbers !== before[place])
    if (i > 1000 && at.length > 1) t.fail(`entry ${i} has ${at.length} of the numbers grow at once`)
    grown += at.length
    const known = Math.floor(random() * (i + 1))
    const entry = find(known)
    if (entry < 0) missed.add(known)
    else if (entry !== entries[known] || table.series[entry] !== known) t.fail(`key ${known} is entry ${entry}`)
    if (find(i + 1) >= 0) t.fail(`key ${i + 1} is found before it is added`)
  }
  t.ok(grown > 20, `they have grown ${grown} times`)
  t.ok(
    added > entries.length - 10 && missed.size < 10,
    `${entries.length - added} keys were not added and ${missed.size} not found, whose probes were all taken`,
  )
})

t.test('many short keys take no more memory than the table may have', async (t) => {
  const most = 1 << 20
  const table = new KeyTable(most, 11)
  const key = Buffer.alloc(4)
  const view = viewOf(key)
  let size = 0
  for (let i = 0; i < 100_000; i++) {
    key.writeUInt32LE(i)
    if (!table.hasRoom(1, 4) && table.bytes < most - 100) t.fail('there is room that is not told')
    table.add(key, 0, 4, table.hashOf(view, 0, 4), i, 0)
    size = Math.max(size, table.size)
  }
  // Each has six numbers and two slots at least.
  t.ok(size > 10_000 && size * (4 + 32) <= most, `${size} keys of 4 bytes`)
  t.equal(table.add(Buffer.alloc(most), 0, most, 1, 1, 1), -1, 'one that is too long alone')
})

t.test('a large arena grows where it lies', async (t) => {
  const table = new KeyTable(1 << 30, 11)
  const key = Buffer.alloc(1 << 20)
  const entries: number[] = []
  const hash = (i: number): number => {
    key.fill(i + 1)
    return table.hashOf(viewOf(key), 0, key.length)
  }
  for (let i = 0; i < 40; i++) entries.push(table.add(key, 0, key.length, hash(i), i, 0))
  for (let i = 0; i < 40; i++) t.equal(table.find(viewOf(key), 0, key.length, hash(i)), entries[i], `key ${i}`)
})
