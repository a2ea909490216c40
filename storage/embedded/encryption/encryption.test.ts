/** Keys, blocks and sidecars without an engine. */
import { inspect } from 'node:util'
import type { FieldType } from 'svcdb'
import { crc32c } from 'svcdb/lib/files'
import t from 'tap'
import { BlockBuilder, decodeBlock, ENCRYPTED_BLOCK_ROWS, encodeBlock, fixedWidth, hasValue, seal, unseal } from './block.ts'
import { KeyRing, readKeys } from './keys.ts'
import { SIDECAR_MAGIC, SidecarReader, type SidecarSource, SidecarWriter } from './sidecar.ts'

const key = (byte: number): Uint8Array => new Uint8Array(32).fill(byte)
const base64 = (byte: number): string => Buffer.from(key(byte)).toString('base64')
function thrown(call: () => unknown): Error {
  try {
    call()
  } catch (error) {
    return error as Error
  }
  throw new Error('nothing was thrown')
}
const ring = new KeyRing({ columns: { a: 'k1', s: 'k2' }, keys: { k1: key(1), k2: key(2) } })

t.test('keys come from the environment', async (t) => {
  const settings = { columns: { email: 'k1' }, keys: { k1: 'SVC_KEY', old: 'SVC_OLD' } }
  const read = readKeys(settings, { SVC_KEY: ` ${base64(7)}\n`, SVC_OLD: base64(8).replace('=', '') })
  t.same(read, { columns: { email: 'k1' }, keys: { k1: key(7), old: key(8) } })
  t.throws(() => readKeys(settings, { SVC_OLD: base64(8) }), {
    code: 'ENCRYPTION_KEY_UNAVAILABLE',
    message: /key "k1" of column "email": the environment variable SVC_KEY is not set/,
  })
  t.throws(() => readKeys(settings, { SVC_KEY: base64(7) }), { code: 'ENCRYPTION_KEY_UNAVAILABLE', message: /key "old": the environment variable SVC_OLD/ })
  const short = Buffer.alloc(31, 1).toString('base64')
  for (const bad of [short, 'secret words', `${base64(7)}AAAA`, base64(7).replaceAll('B', '*')]) {
    const error = thrown(() => readKeys(settings, { SVC_KEY: bad, SVC_OLD: base64(8) }))
    t.match(error.message, /SVC_KEY is not base64 of 32 bytes/)
    t.notOk(error.message.includes(bad), 'the value is not shown')
  }
  t.throws(() => readKeys({ columns: { email: 'k2' }, keys: { k1: 'SVC_KEY' } }, {}), {
    code: 'CONFIG_ERROR',
    message: /column "email".*no key "k2"; it has k1/,
  })
})

t.test('a key ring does not print', async (t) => {
  for (const shown of [inspect(ring, { showHidden: true, depth: 9 }), JSON.stringify({ ring })]) {
    t.match(shown, /\[redacted\]/)
    t.notMatch(shown, /Uint8Array|1, ?1/)
  }
})

t.test('each segment and stretch of the log has a key of its own', async (t) => {
  const keys = [
    ring.segmentKey('k1', 1, 5),
    ring.segmentKey('k1', 2, 5),
    ring.segmentKey('k1', 1, 6),
    ring.segmentKey('k2', 1, 5),
    ring.logKey('k1', 5),
    ring.logKey('k1', 2 ** 20),
  ].map((bytes) => Buffer.from(bytes).toString('hex'))
  t.equal(new Set(keys).size, keys.length)
  t.same(ring.logKey('k1', 5), ring.logKey('k1', 2 ** 20 - 1))
  t.throws(() => ring.segmentKey('gone', 1, 5), { code: 'ENCRYPTION_KEY_UNAVAILABLE', message: /key "gone"/ })
})

/** Values of every type as bytes, null now and then. */
function value(type: FieldType, i: number): Uint8Array | null {
  if (i % 7 === 3) return null
  const width = fixedWidth(type)
  if (width === 0) return Buffer.from(i % 5 === 0 ? '' : `text ${'x'.repeat(i % 40)} ${i}`)
  return Uint8Array.from({ length: width }, (_, b) => (i * 31 + b * 7) & 255)
}

t.test('a block comes back as it went in', async (t) => {
  for (const type of ['float64', 'int64', 'uint64', 'bool', 'string', 'decimal', 'histogram'] as const) {
    for (const rows of [1, 8, 1000, ENCRYPTED_BLOCK_ROWS]) {
      const builder = new BlockBuilder(type)
      const fill = (): void => {
        for (let i = 0; i < rows; i++) {
          const bytes = value(type, i)
          if (bytes === null) builder.addNull()
          else builder.add(bytes, 0, bytes.length)
        }
      }
      fill()
      const block = builder.take()
      const decoded = decodeBlock(encodeBlock(block, builder.width), builder.width)
      t.same({ ...decoded, values: Buffer.from(decoded.values) }, { ...block, values: Buffer.from(block.values) }, `${type}, ${rows} rows`)
      const wrong = Array.from({ length: rows }, (_, i) => i).filter((i) => hasValue(decoded.bits, i) !== (value(type, i) !== null))
      t.same(wrong, [])
      fill()
      t.same(builder.take(), block, 'nothing is left of the block before')
    }
  }
})

t.test('sealed bytes open with their key and their data only', async (t) => {
  const data = Buffer.from('place')
  const sealed = seal(key(1), Buffer.from('plain text'), data)
  t.equal(Buffer.from(unseal(key(1), sealed, data)).toString(), 'plain text')
  t.notSame(seal(key(1), Buffer.from('plain text'), data), sealed, 'nonces differ')
  t.throws(() => unseal(key(2), sealed, data))
  t.throws(() => unseal(key(1), sealed, Buffer.from('other')))
  t.throws(() => unseal(key(1), sealed.subarray(0, 20), data))
  for (let i = 0; i < sealed.length; i++) {
    const flipped = sealed.slice()
    flipped[i] ^= 1 << (i & 7)
    t.throws(() => unseal(key(1), flipped, data), `byte ${i}`)
  }
})

const COLUMNS = [
  { name: 'a', type: 'float64' as const, key: 'k1' },
  { name: 's', type: 'string' as const, key: 'k2' },
]
const ROWS = ENCRYPTED_BLOCK_ROWS + 100

function sidecar(segment: number, created = 1000): Uint8Array {
  const parts: Uint8Array[] = []
  const writer = new SidecarWriter({ segment, created }, COLUMNS, ring, (bytes) => parts.push(bytes))
  for (let i = 0; i < ROWS; i++) {
    for (const [c, { type }] of COLUMNS.entries()) {
      const bytes = value(type, i)
      if (bytes === null) writer.builders[c].addNull()
      else writer.builders[c].add(bytes, 0, bytes.length)
    }
    writer.writeFull()
  }
  if (writer.finish() !== ROWS) throw new Error('rows are missing')
  return Buffer.concat(parts)
}

const source = (bytes: Uint8Array, name = 'test.enc'): SidecarSource => ({ name, size: bytes.length, read: (at, length) => bytes.subarray(at, at + length) })

t.test('a sidecar gives back each block of each column', async (t) => {
  const reader = new SidecarReader(source(sidecar(1)), { segment: 1, created: 1000 })
  for (const number of [0, 1]) {
    const numbers = reader.block(COLUMNS[0], number, ring)
    const texts = reader.block(COLUMNS[1], number, ring)
    t.equal(numbers.rows, number === 0 ? ENCRYPTED_BLOCK_ROWS : 100)
    for (let i = 0; i < numbers.rows; i++) {
      const row = number * ENCRYPTED_BLOCK_ROWS + i
      const [a, s] = [value('float64', row), value('string', row)]
      if (hasValue(numbers.bits, i) !== (a !== null) || hasValue(texts.bits, i) !== (s !== null)) t.fail(`validity of row ${row}`)
      if (a !== null && Buffer.compare(numbers.values.subarray(i * 8, i * 8 + 8), a) !== 0) t.fail(`number of row ${row}`)
      if (s !== null && Buffer.compare(texts.values.subarray(texts.offsets![i], texts.offsets![i + 1]), s) !== 0) t.fail(`text of row ${row}`)
    }
  }
  t.throws(() => reader.block(COLUMNS[0], 2, ring), { code: 'DATABASE_ERROR', message: /lacks block 2/ })
  t.throws(() => reader.block({ ...COLUMNS[0], name: 'other' }, 0, ring), { code: 'DATABASE_ERROR', message: /lacks column "other"/ })
})

t.test('blocks of large texts have fewer rows, and each row is found', async (t) => {
  const parts: Uint8Array[] = []
  const writer = new SidecarWriter({ segment: 1, created: 1000 }, COLUMNS, ring, (bytes) => parts.push(bytes))
  const textOf = (i: number): Buffer => Buffer.alloc(i < 9000 ? i % 5 : 100_000, `text ${i} `)
  const rows = 9100
  for (let i = 0; i < rows; i++) {
    if (i % 7 === 0) writer.builders[0].addNull()
    else writer.builders[0].add(value('float64', 1) as Buffer, 0, 8)
    const text = textOf(i)
    writer.builders[1].add(text, 0, text.length)
    writer.writeFull()
  }
  t.equal(writer.finish(), rows)
  const file = Buffer.concat(parts)
  const reader = new SidecarReader(source(file), { segment: 1, created: 1000 })
  const sizes = new Set<number>()
  for (const row of [0, 8191, 8192, 8999, ...Array.from({ length: 100 }, (_, i) => 9000 + i)]) {
    const number = reader.numberOf(row)
    const [numbers, texts] = COLUMNS.map((column) => reader.block(column, number, ring))
    const i = row - reader.firstOf(number)
    t.ok(i >= 0 && i < texts.rows)
    t.equal(numbers.rows, texts.rows)
    sizes.add(texts.values.length)
    if (Buffer.compare(texts.values.subarray(texts.offsets![i], texts.offsets![i + 1]), textOf(row)) !== 0) t.fail(`text of row ${row}`)
    if (hasValue(numbers.bits, i) !== (row % 7 !== 0)) t.fail(`validity of row ${row}`)
  }
  t.ok(Math.max(...sizes) < (2 << 20) + 100_000, `at most ${Math.max(...sizes)} bytes in a block`)
  t.ok(sizes.size > 3)
  t.ok(reader.longBytes >= 100 * 100_000 && reader.longBytes < 200 * 100_000, `${reader.longBytes} bytes, about`)
  t.equal(new SidecarReader(source(sidecar(1)), { segment: 1, created: 1000 }).longBytes, 0, 'no block has ended for them')
  t.throws(() => reader.block(COLUMNS[1], reader.numberOf(rows), ring), { code: 'DATABASE_ERROR', message: /lacks block/ })
  // An index is not sealed, but what it says of a block must be so.
  const length = file.readUInt32LE(file.length - 16)
  const index = JSON.parse(file.subarray(file.length - 16 - length, file.length - 16).toString()) as { blockRows: number; ends: number[] }
  t.equal(index.blockRows, 0, 'who knows blocks of one size only does not read it')
  const withIndex = (changed: object): Buffer => {
    const text = Buffer.from(JSON.stringify({ ...index, ...changed }))
    const trailer = Buffer.from(file.subarray(file.length - 16))
    trailer.writeUInt32LE(text.length, 0)
    trailer.writeUInt32LE(crc32c(text, 0, text.length) >>> 0, 4)
    return Buffer.concat([file.subarray(0, file.length - 16 - length), text, trailer])
  }
  const open = (changed: object): SidecarReader => new SidecarReader(source(withIndex(changed)), { segment: 1, created: 1000 })
  t.throws(() => open({ ends: [8193, ...index.ends.slice(1)] }).block(COLUMNS[0], 0, ring), { code: 'DATABASE_ERROR', message: /does not open/ })
  t.throws(() => open({ ends: index.ends.toReversed() }), { code: 'DATABASE_ERROR', message: /end where none can/ })
  t.throws(() => open({ ends: index.ends.slice(0, -1) }), { code: 'DATABASE_ERROR', message: /end where none can/ })
  for (const first of [0, index.ends[0]]) t.throws(() => open({ ends: [first, ...index.ends] }), { code: 'DATABASE_ERROR', message: /end where none can/ })
  t.throws(() => open({ ends: [index.ends[1], index.ends[0], ...index.ends.slice(2)] }), { code: 'DATABASE_ERROR', message: /end where none can/ })
  t.throws(() => open({ blockRows: 100 }), { code: 'DATABASE_ERROR', message: /blocks of 100 rows/ })
})

t.test('so many rows as a writer says may be added at once: blocks of large texts have few', async (t) => {
  const parts: Uint8Array[] = []
  const writer = new SidecarWriter({ segment: 1, created: 1000 }, [COLUMNS[1]], ring, (bytes) => parts.push(bytes))
  const text = Buffer.alloc(100_000, 'x')
  for (let row = 0; row < 500; writer.writeFull()) {
    for (const end = Math.min(500, row + writer.step); row < end; row++) writer.builders[0].add(text, 0, text.length)
  }
  t.equal(writer.finish(), 500)
  const reader = new SidecarReader(source(Buffer.concat(parts)), { segment: 1, created: 1000 })
  t.ok(reader.block(COLUMNS[1], 0, ring).rows <= 32)
})

t.test('a missing or another key is named', async (t) => {
  const reader = new SidecarReader(source(sidecar(1)), { segment: 1, created: 1000 })
  t.throws(() => reader.block(COLUMNS[0], 0, new KeyRing()), { code: 'ENCRYPTION_KEY_UNAVAILABLE', message: /key "k1"/ })
  const other = new KeyRing({ columns: {}, keys: { k1: key(9) } })
  t.throws(() => reader.block(COLUMNS[0], 0, other), {
    code: 'DATABASE_ERROR',
    message: /test.enc" at offset 8: block 0 of column "a" does not open with key "k1"/,
  })
})

t.test('a flipped bit anywhere is an error, never a wrong value', async (t) => {
  const bytes = sidecar(1)
  const readAll = (file: Uint8Array): void => {
    const reader = new SidecarReader(source(file), { segment: 1, created: 1000 })
    for (const column of COLUMNS) for (const number of [0, 1]) reader.block(column, number, ring)
  }
  readAll(bytes)
  let tried = 0
  // The magic in front is for people: nothing is read from there.
  for (let at = 8; at < bytes.length; at += at > bytes.length - 400 ? 1 : 997) {
    const flipped = Buffer.from(bytes)
    flipped[at] ^= 1 << (at & 7)
    t.throws(() => readAll(flipped), { code: 'DATABASE_ERROR' }, `byte ${at}`)
    tried++
  }
  t.ok(tried > 350)
  for (const length of [0, 10, 30, bytes.length - 1]) t.throws(() => readAll(bytes.subarray(0, length)), { code: 'DATABASE_ERROR' }, `cut to ${length}`)
})

t.test('files and blocks do not open in the place of others', async (t) => {
  const [one, two] = [sidecar(1), sidecar(2)]
  t.throws(() => new SidecarReader(source(two), { segment: 1, created: 1000 }), { code: 'DATABASE_ERROR', message: /belongs to segment 2/ })
  t.throws(() => new SidecarReader(source(one), { segment: 1, created: 1001 }), { code: 'DATABASE_ERROR', message: /of 1000, not to 1 of 1001/ })
  // With an index that says what it should, the blocks still know where they belong.
  const footerAt = (file: Uint8Array): number => file.length - 16 - new DataView(file.buffer, file.byteOffset + file.length - 16).getUint32(0, true)
  const same = (file: Uint8Array): number[] => JSON.parse(Buffer.from(file.subarray(footerAt(file), file.length - 16)).toString()).columns[0].blocks
  t.same(same(one), same(two), 'blocks of both lie at the same places')
  const swapped = Buffer.concat([two.subarray(0, footerAt(two)), one.subarray(footerAt(one))])
  const reader = new SidecarReader(source(swapped), { segment: 1, created: 1000 })
  t.throws(() => reader.block(COLUMNS[0], 0, ring), { code: 'DATABASE_ERROR', message: /does not open/ })
  const relabelled = new SidecarReader(source(one), { segment: 1, created: 1000 })
  t.throws(() => relabelled.block({ ...COLUMNS[0], type: 'int64' }, 0, ring), { code: 'DATABASE_ERROR' }, 'nor as another type')
})

t.test('a block is bound to its segment, its creation, its column, its type and its position, under one key', async (t) => {
  // The keys of a segment are its own: with one key for all, only what is sealed with a block can tell.
  const oneKey = { segmentKey: () => Buffer.alloc(32, 7) } as unknown as KeyRing
  const columns = ['a', 'b'].map((name) => ({ name, type: 'float64' as const, key: 'k1' }))
  const fileOf = (segment: number, created: number): Buffer => {
    const parts: Uint8Array[] = []
    const writer = new SidecarWriter({ segment, created }, columns, oneKey, (bytes) => parts.push(bytes))
    const bytes = Buffer.alloc(8)
    for (let i = 0; i < 2 * ENCRYPTED_BLOCK_ROWS; i++) {
      for (const builder of writer.builders) builder.add(bytes, 0, 8)
      writer.writeFull()
    }
    writer.finish()
    return Buffer.concat(parts)
  }
  const file = fileOf(1, 1000)
  const footerLength = file.readUInt32LE(file.length - 16)
  const footer = JSON.parse(file.subarray(file.length - 16 - footerLength, file.length - 16).toString()) as { columns: { blocks: number[] }[] }
  const length = footer.columns[0].blocks[0]
  t.same(
    footer.columns.map(({ blocks }) => blocks),
    [
      [length, length],
      [length, length],
    ],
    'all blocks are of one size, and can be exchanged',
  )
  const first = SIDECAR_MAGIC.length
  const open = (bytes: Uint8Array, column = columns[0], identity = { segment: 1, created: 1000 }) =>
    new SidecarReader(source(bytes), identity).block(column, 0, oneKey)
  t.doesNotThrow(() => open(file))
  t.throws(() => open(file, { ...columns[0], type: 'int64' as 'float64' }), { code: 'DATABASE_ERROR', message: /does not open/ })
  for (let other = 1; other < 4; other++) {
    const swapped = Buffer.from(file)
    swapped.copyWithin(first, first + other * length, first + (other + 1) * length)
    t.throws(() => open(swapped), { code: 'DATABASE_ERROR', message: /does not open/ }, `the block at ${other}`)
  }
  for (const [segment, created] of [
    [2, 1000],
    [1, 2000],
  ]) {
    const foreign = Buffer.from(file)
    fileOf(segment, created).copy(foreign, first, first, first + length)
    t.throws(() => open(foreign), { code: 'DATABASE_ERROR', message: /does not open/ }, `a block of segment ${segment} of ${created}`)
  }
})
