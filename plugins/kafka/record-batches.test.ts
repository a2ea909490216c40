/** Fetches, by the module of the library that is replaced. */
import { createRequire } from 'node:module'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { load } from './kafkajs-client.ts'
import type { LibraryRecord } from './record-batches.ts'

load()
const require = createRequire(import.meta.url)
const protocol = 'kafkajs/src/protocol'
const Decoder = require(`${protocol}/decoder.js`)
const fetchedIn = require(`${protocol}/requests/fetch/v4/decodeMessages.js`) as (decoder: unknown) => Promise<LibraryRecord[]>

/** Of 257 MiB, one more than a batch may have. */
const TOO_LARGE = gzipSync(Buffer.alloc(257 * 1024 * 1024), { level: 1 })

/** As they lie in a fetch: behind their size. */
function decoded(...batches: Buffer[]): Promise<LibraryRecord[]> {
  const bytes = Buffer.concat([Buffer.alloc(4), ...batches])
  bytes.writeInt32BE(bytes.length - 4)
  return fetchedIn(new Decoder(bytes))
}

function numberOf(value: number): number[] {
  let rest = value < 0 ? -2 * value - 1 : 2 * value
  const bytes: number[] = []
  for (; rest > 127; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128)
  return [...bytes, rest]
}

const blobOf = (text: string | null): number[] => (text === null ? numberOf(-1) : [...numberOf(Buffer.byteLength(text)), ...Buffer.from(text)])

interface Given {
  time?: number
  offset?: number
  key?: string | null
  value?: string | null
  headers?: readonly (readonly [string, string])[]
}

function recordOf({ time = 0, offset = 0, key = null, value = null, headers = [] }: Given): number[] {
  const body = [0, ...numberOf(time), ...numberOf(offset), ...blobOf(key), ...blobOf(value), ...numberOf(headers.length)]
  for (const [name, text] of headers) for (const byte of [...blobOf(name), ...blobOf(text)]) body.push(byte)
  return [...numberOf(body.length), ...body]
}

function batchOf(records: Buffer, { first = 0n, time = 1000n, attributes = 0, count = 1 } = {}): Buffer {
  const head = Buffer.alloc(61)
  head.writeBigInt64BE(first)
  head.writeInt32BE(49 + records.length, 8)
  head[16] = 2
  head.writeInt16BE(attributes, 21)
  head.writeBigInt64BE(time, 27)
  head.writeBigInt64BE(77n, 35)
  head.writeBigInt64BE(5n, 43)
  head.writeInt32BE(count, 57)
  return Buffer.concat([head, records])
}

t.test('records as they were sent', async (t) => {
  const given: Given[] = [
    { key: 'k', value: 'one', headers: [['a', 'x'], ['b', 'y'], ['a', 'z'], ['a', '']] }, // biome-ignore format: pairs
    { time: -5, offset: 1, value: '' },
    { time: 2 ** 40, offset: 200, key: '', value: 'ä' },
  ]
  const bytes = Buffer.from(given.flatMap(recordOf))
  const first = 2n ** 40n
  const found = await decoded(batchOf(bytes, { first, count: 3 }), batchOf(gzipSync(bytes), { attributes: 1 | 8 | 16 | 32, count: 3 }), Buffer.alloc(70, 9))
  t.same(
    found.map(({ offset, timestamp, key, value }) => [offset, timestamp, key === null ? null : `${key}`, value === null ? null : `${value}`]),
    [
      [String(first), '1000', 'k', 'one'],
      [String(first + 1n), '995', null, ''],
      [String(first + 200n), String(2 ** 40 + 1000), '', 'ä'],
      ['0', '77', 'k', 'one'],
      ['1', '77', null, ''],
      ['200', '77', '', 'ä'],
    ],
    'and what a fetch has cut is left out',
  )
  t.same({ ...found[0].headers }, { a: ['x', 'z', ''].map((text) => Buffer.from(text)), b: Buffer.from('y') })
  t.match(found[0], { isControlRecord: false, batchContext: { producerId: '5', inTransaction: false } })
  t.match(found[3], { isControlRecord: true, batchContext: { inTransaction: true } })
  const [far] = await decoded(batchOf(Buffer.from(recordOf({ value: 'v' })), { time: 2n ** 62n }))
  t.equal(far.timestamp, String(2n ** 62n))
})

t.test('a record with very many headers: those that nobody asks for are not read, and no more than 10,000', async (t) => {
  const names = Array.from({ length: 100_000 }, (_, i) => [i % 2 === 0 ? 'same' : `n${i}`, 'v'] as const)
  const [record, next] = await decoded(
    batchOf(Buffer.from([...recordOf({ value: 'v', headers: names }), ...recordOf({ value: 'w', headers: [['a', 'x']] })]), { count: 2 }),
  )
  t.notOk(Object.keys(record).includes('headers'), 'they are no object of their own yet')
  t.equal(Object.keys(record.headers).length, 5001)
  t.equal((record.headers.same as Buffer[]).length, 5000)
  t.same({ ...next.headers }, { a: Buffer.from('x') })
})

t.test('a batch of very many records gives way', async (t) => {
  const count = 300_000
  const bytes = Buffer.concat(Array.from({ length: count }, (_, offset) => Buffer.from(recordOf({ offset, value: 'x' }))))
  let turns = 0
  const tick = setInterval(() => turns++, 1)
  const found = await decoded(batchOf(bytes, { count }))
  clearInterval(tick)
  t.equal(found.length, count)
  t.ok(turns > 2, `${turns} turns`)
})

t.test('what is no batch of records', async (t) => {
  const bytes = Buffer.from(recordOf({ key: 'k', value: 'v', headers: [['a', 'b']] }))
  for (const wrong of [
    batchOf(bytes, { count: 2 }),
    batchOf(bytes.subarray(0, -1)),
    batchOf(Buffer.from([0x7f])),
    batchOf(Buffer.from([12, 0, 0, 0, 2, 120, 9])),
    batchOf(Buffer.from([12, 0, 0, 0, 3, 1, 0])),
  ])
    await t.rejects(decoded(wrong), { message: /cannot read a batch of records: it is corrupt/ })
  // Its value is longer than the record.
  await t.rejects(decoded(batchOf(Buffer.from([10, 0, 0, 0, 1, 4, 120, 120, 0]))), { message: /corrupt/ })
  // What does not decompress is no batch that is too large: its records are not passed over.
  await t.rejects(decoded(batchOf(Buffer.from('no gzip'), { attributes: 1 })), { message: /header/ })
  const negative = batchOf(bytes)
  negative.writeInt32BE(-12, 8)
  await t.rejects(decoded(negative), { message: /corrupt/ })
})

t.test('a fetch that decompresses to much brings a part of it, and the next one the rest', async (t) => {
  const value = 'x'.repeat(30 * 1024 * 1024)
  const bytes = Buffer.concat([
    Buffer.from(numberOf(value.length + 9)),
    Buffer.from([0, 0, 0, 1]),
    Buffer.from(numberOf(value.length)),
    Buffer.from(value),
    Buffer.from([0]),
  ])
  const compressed = gzipSync(bytes)
  const large = (first: bigint) => batchOf(compressed, { first, attributes: 1 })
  const marker = batchOf(Buffer.from(recordOf({ key: 'k' })), { attributes: 32 })
  const small = batchOf(Buffer.from(recordOf({ value: 'v' })))
  const partition = (...batches: Buffer[]): Buffer => {
    const whole = Buffer.concat([Buffer.alloc(4), ...batches])
    whole.writeInt32BE(whole.length - 4)
    return whole
  }
  // Partitions of one fetch lie one behind the other.
  const decoder = new Decoder(Buffer.concat([partition(marker, ...[1n, 2n, 3n, 4n, 5n].map(large)), partition(large(9n)), partition(small), partition(small)]))
  const found: string[][] = []
  for (let i = 0; i < 4; i++) found.push((await fetchedIn(decoder)).map(({ offset }) => offset))
  t.same(found, [['0', '1', '2', '3'], [], [], []])
  t.same(
    (await decoded(large(4n), large(5n))).map(({ offset }) => offset),
    ['4', '5'],
  )
})

t.test('a batch that decompresses to more than may be is one record that says so, and the next fetch brings those behind it', async (t) => {
  const small = batchOf(Buffer.from(recordOf({ value: 'v' })), { first: 20n })
  const large = batchOf(TOO_LARGE, { first: 10n, attributes: 1 | 16, count: 3 })
  large.writeInt32BE(2, 23)
  const [[unread], [next]] = [await decoded(large, small), await decoded(small)]
  t.match(unread, { offset: '12', timestamp: '1000', key: null, value: null, isControlRecord: false, batchContext: { producerId: '5', inTransaction: true } })
  t.match(unread.unread, { bytes: large.length - 61, why: /cannot read the 3 records from offset 10 on: .*268435456 bytes/ })
  t.match(next, { offset: '20', unread: undefined })
})

t.test('a batch of more records than may be is one record that says so, however small it is', async (t) => {
  const empty = Buffer.from(recordOf({}))
  const many = (count: number, attributes = 0) => {
    const records = Buffer.alloc(empty.length * count, empty)
    const batch = batchOf(attributes === 0 ? records : gzipSync(records), { first: 10n, attributes, count })
    batch.writeInt32BE(count - 1, 23)
    return batch
  }
  const small = batchOf(Buffer.from(recordOf({ value: 'v' })), { first: 3_000_000n })
  for (const attributes of [0, 1]) {
    const [unread, ...others] = await decoded(many(1_000_001, attributes))
    t.match({ ...unread }, { offset: '1000010', key: null, value: null, unread: { why: /^cannot read the 1000001 records from offset 10 on: .*1000000/ } })
    t.equal(others.length, 0)
  }
  t.equal((await decoded(small))[0].offset, '3000000')
  // A number of records that they cannot be is no reason to pass over them.
  await t.rejects(decoded(batchOf(empty, { count: 2_000_000_000 })), { message: /corrupt/ })
})

t.test('records of one fetch that are not compressed are bounded as well', async (t) => {
  const empty = Buffer.from(recordOf({}))
  const count = 100_000
  const batch = (first: bigint) => batchOf(Buffer.alloc(empty.length * count, empty), { first, count })
  const found = await decoded(...Array.from({ length: 20 }, (_, i) => batch(BigInt(i * count))))
  t.ok(found.length < 10 * count, `${found.length} records`)
  t.ok(found.length >= count)
})

/** A message of the format before that of batches. @param attributes 1 = gzip. */
function messageOf(value: Buffer, { offset = 0n, attributes = 0 } = {}): Buffer {
  const head = Buffer.alloc(34)
  head.writeBigInt64BE(offset)
  head.writeInt32BE(22 + value.length, 8)
  head[16] = 1
  head[17] = attributes
  head.writeBigInt64BE(1000n, 18)
  head.writeInt32BE(-1, 26)
  head.writeInt32BE(value.length, 30)
  return Buffer.concat([head, value])
}

t.test('messages of the format before', async (t) => {
  const inner = Buffer.concat([messageOf(Buffer.from('one')), messageOf(Buffer.from('two'), { offset: 1n })])
  const found = await decoded(
    messageOf(Buffer.from('plain'), { offset: 5n }),
    messageOf(gzipSync(inner), { offset: 7n, attributes: 1 }),
    batchOf(Buffer.from(recordOf({ value: 'v' })), { first: 8n }),
  )
  t.same(
    found.map(({ offset, value }) => [String(offset), `${value}`]),
    [
      ['5', 'plain'],
      ['6', 'one'],
      ['7', 'two'],
    ],
    'a batch behind them comes with the next fetch',
  )
  const wrong = messageOf(Buffer.from('v'))
  wrong.writeInt32BE(-20, 8)
  await t.rejects(decoded(wrong, Buffer.alloc(40)), { message: /corrupt/ })
})

t.test('of compressed messages of the format before, a fetch brings a part as well', async (t) => {
  const compressed = gzipSync(messageOf(Buffer.alloc(30 * 1024 * 1024)))
  const large = (offset: bigint) => messageOf(compressed, { offset, attributes: 1 })
  const found = await decoded(...[0n, 1n, 2n, 3n, 4n, 5n].map(large))
  t.same(
    found.map(({ offset }) => String(offset)),
    ['0', '1', '2'],
  )
})

t.test('a compressed message of the format before has very many in it, and they give way', async (t) => {
  const count = 300_000
  const one = messageOf(Buffer.from('x'))
  let turns = 0
  const tick = setInterval(() => turns++, 1)
  const found = await decoded(messageOf(gzipSync(Buffer.alloc(one.length * count, one)), { offset: 7n, attributes: 1 }))
  clearInterval(tick)
  t.equal(found.length, count)
  t.ok(turns > 2, `${turns} turns`)
  const plain = Buffer.alloc(one.length * 100_000, one)
  turns = 0
  const further = setInterval(() => turns++, 1)
  t.equal((await decoded(plain)).length, 100_000)
  clearInterval(further)
  t.ok(turns > 2, `${turns} turns`)
})

t.test('a compressed message of the format before with more than may be is one record that says so, and the next fetch brings those behind it', async (t) => {
  const empty = messageOf(Buffer.alloc(0))
  const behind = messageOf(Buffer.from('v'), { offset: 3_000_000n })
  for (const [value, why] of [
    [TOO_LARGE, /^cannot read the records up to offset 1000010: .*268435456 bytes/],
    [gzipSync(Buffer.alloc(1_000_001 * empty.length, empty)), /^cannot read the records up to offset 1000010: .*1000000/],
  ] as const) {
    const [unread, ...others] = await decoded(messageOf(value, { offset: 1_000_010n, attributes: 1 }), behind)
    t.match(unread, { offset: '1000010', timestamp: '1000', key: null, value: null, unread: { bytes: value.length, why } })
    t.equal(others.length, 0)
  }
  t.equal((await decoded(behind))[0].offset, '3000000')
})

t.test('times and offsets of messages of the formats before', async (t) => {
  const oldest = messageOf(Buffer.from('v'), { offset: 4n })
  // The format of before has no time.
  const untimed = Buffer.concat([oldest.subarray(0, 18), oldest.subarray(26)])
  untimed.writeInt32BE(untimed.length - 12, 8)
  untimed[16] = 0
  const around = (value: Buffer, attributes: number): Buffer => {
    const message = messageOf(gzipSync(value), { offset: 9n, attributes })
    message.writeBigInt64BE(5000n, 18)
    return message
  }
  const wrapped = messageOf(gzipSync(untimed), { offset: 9n, attributes: 1 })
  const first = Buffer.concat([wrapped.subarray(0, 18), wrapped.subarray(26)])
  first.writeInt32BE(first.length - 12, 8)
  first[16] = 0
  const found = await decoded(untimed, first, around(oldest, 1), around(oldest, 1 | 8))
  t.same(
    found.map(({ offset, timestamp, value }) => [offset, timestamp, `${value}`]),
    [
      ['4', '-1', 'v'],
      ['4', '-1', 'v'],
      ['9', '1000', 'v'],
      ['9', '5000', 'v'],
    ],
  )
})

t.test('what is no message of the formats before', async (t) => {
  const good = messageOf(Buffer.from('v'))
  const changed = (change: (bytes: Buffer) => void): Buffer => {
    const bytes = Buffer.from(good)
    change(bytes)
    return bytes
  }
  const compressed = (bytes: Buffer): Buffer => messageOf(gzipSync(bytes), { attributes: 1 })
  for (const [name, bytes] of Object.entries({
    'a value beyond its message': changed((of) => of.writeInt32BE(100, 30)),
    'a key beyond its message': changed((of) => of.writeInt32BE(2 ** 31 - 1, 26)),
    'a negative length': changed((of) => of.writeInt32BE(-2, 26)),
    'a compressed message of nothing': compressed(Buffer.alloc(0)),
    'one within that is cut': compressed(good.subarray(0, -1)),
    'one within whose head is cut': compressed(Buffer.concat([good, good.subarray(0, 20)])),
    'one within of another format': compressed(changed((of) => of.writeInt8(2, 16))),
    'a compressed message without a value': changed((of) => {
      of[17] = 1
      of.writeInt32BE(-1, 30)
    }),
  }))
    await t.rejects(decoded(bytes), { message: /cannot read a batch of records: it is corrupt/ }, name)
})
