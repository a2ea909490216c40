import t from 'tap'
import { seeded } from '../random/index.ts'
import { ProtobufReader } from './reader.ts'

function reading(...bytes: number[]): ProtobufReader {
  const reader = new ProtobufReader()
  reader.begin(Uint8Array.from(bytes))
  return reader
}

function varintOf(value: bigint): number[] {
  const bytes: number[] = []
  let rest = BigInt.asUintN(64, value)
  for (; rest > 127n; rest >>= 7n) bytes.push(Number(rest & 127n) | 128)
  return [...bytes, Number(rest)]
}

const halves = ({ low, high }: ProtobufReader) => BigInt.asUintN(64, (BigInt(high) << 32n) | BigInt(low >>> 0))

t.test('varints of every length come as two halves', async (t) => {
  const random = seeded(11)
  const values = [0n, 1n, 127n, 128n, 2n ** 32n - 1n, 2n ** 32n, 2n ** 63n, 2n ** 64n - 1n]
  for (let bits = 1n; bits <= 64n; bits++)
    values.push(2n ** bits - 1n, 2n ** (bits - 1n), BigInt.asUintN(Number(bits), BigInt(Math.floor(random() * 2 ** 52)) ** 2n))
  for (const value of values) {
    const reader = reading(0x08, ...varintOf(value))
    t.ok(reader.next())
    reader.int64()
    t.equal(halves(reader), value)
    t.equal(reader.unsigned, Number(value))
    t.equal(reader.signed, Number(BigInt.asIntN(64, value)))
    t.notOk(reader.next())
  }
})

t.test('zigzag numbers of 32 and 64 bits', async (t) => {
  for (const value of [0n, -1n, 1n, -2n, 2n ** 31n - 1n, -(2n ** 31n), 2n ** 53n, -(2n ** 62n), 2n ** 63n - 1n, -(2n ** 63n)]) {
    const coded = value < 0n ? -value * 2n - 1n : value * 2n
    const reader = reading(...varintOf(coded))
    reader.zigzag()
    t.equal(reader.signed, Number(value))
    t.equal(halves(reader), BigInt.asUintN(64, value))
    if (BigInt.asIntN(32, value) !== value) continue
    const small = reading(0x08, ...varintOf(coded))
    small.next()
    t.equal(small.sint32(), Number(value))
  }
})

t.test('doubles, their bits, and nested messages', async (t) => {
  const value = Buffer.alloc(8)
  value.writeDoubleLE(-2.5)
  const reader = reading(0x0a, 12, 0x09, ...value, 0x10, 0x96, 0x01, 0x11, ...value, 0x1a, 2, 104, 105, 0xfa, 0x01, 0)
  t.ok(reader.next())
  const outer = reader.enter()
  t.ok(reader.next())
  t.equal(reader.double(), -2.5)
  t.ok(reader.next())
  t.equal(reader.field, 2)
  t.equal(reader.uint32(), 150)
  t.notOk(reader.next())
  reader.leave(outer)
  t.ok(reader.next())
  reader.fixed64()
  t.equal(halves(reader), value.readBigUInt64LE())
  t.ok(reader.next())
  const start = reader.span()
  t.equal(Buffer.from(reader.bytes.subarray(start, reader.at)).toString(), 'hi')
  t.ok(reader.next())
  t.equal(reader.field, 31)
  reader.leave(reader.enter())
  t.notOk(reader.next())
})

t.test('leaving a message passes over what was not read', async (t) => {
  const reader = reading(0x0a, 3, 0x08, 0x01, 0x10, 0x10, 0x07)
  reader.next()
  reader.leave(reader.enter())
  t.ok(reader.next())
  t.same([reader.field, reader.int32()], [2, 7])
})

t.test('any field can be skipped, groups with all that is in them too', async (t) => {
  const group = [0x0b, 0x10, 0x05, 0x1b, 0x22, 1, 0x0c, 0x1c, 0x0c]
  const reader = reading(0x08, 0x80, 0x01, 0x11, 1, 2, 3, 4, 5, 6, 7, 8, 0x1a, 2, 0x08, 0x08, ...group, 0x25, 1, 2, 3, 4, 0x28, 9)
  const seen: number[] = []
  while (reader.next()) {
    seen.push(reader.field)
    if (reader.field < 5) reader.skip()
    else t.equal(reader.int32(), 9)
  }
  t.same(seen, [1, 2, 3, 1, 4, 5])
})

t.test('corruption is named with its place', async (t) => {
  const skipAll = (reader: ProtobufReader) => {
    while (reader.next()) reader.skip()
  }
  const cases: [string, number[], RegExp][] = [
    ['a number that is cut', [0x08, 0x80], /ends in the middle of a number, at byte 1 of 2/],
    ['a tag that is cut', [0x88], /ends in the middle of a number, at byte 0 of 1/],
    ['a number of 65 bits', [0x08, ...Array(9).fill(0xff), 2], /more than 64 bits, at byte 1 of 11/],
    ['a number that does not end', [0x08, ...Array(20).fill(0xff)], /more than 64 bits/],
    ['a length beyond the end', [0x08, 0, 0x0a, 3, 1, 2], /field 1 is longer than the message that holds it, at byte 3 of 6/],
    ['a length of 64 bits', [0x0a, ...varintOf(2n ** 40n)], /longer than the message/],
    ['a double that is cut', [0x09, 1, 2, 3], /ends in the middle of field 1, at byte 1 of 4/],
    ['a fixed32 that is cut', [0x0d, 1, 2, 3], /ends in the middle of field 1/],
    ['field 0', [0x00], /the number 0, at byte 0 of 1/],
    ['a huge field number', varintOf(2n ** 40n), /number that is too large/],
    ['an unknown wire type', [0x0e], /unknown wire type 6/],
    ['a group that does not end', [0x0b, 0x10, 0x01], /a group does not end, at byte 1/],
    ['a group that did not begin', [0x0c], /ends that did not begin/],
    ['groups without end', Array(200).fill(0x0b), /nested more than 100 deep/],
  ]
  for (const [name, bytes, text] of cases) t.throws(() => skipAll(reading(...bytes)), { code: 'BAD_REQUEST', message: text }, name)
  const inner = reading(0x0a, 2, 0x12, 5, 1, 2, 3, 4, 5)
  inner.next()
  inner.enter()
  inner.next()
  t.throws(() => inner.span(), /field 2 is longer than the message that holds it/, 'a nested field may not reach out of its message')
  const mistaken = reading(0x0d, 0, 0, 0, 0)
  mistaken.next()
  t.throws(() => mistaken.int32(), /field 1 has wire type 5, not 0/)
})

t.test('floats of 32 bits', async (t) => {
  for (const value of [0, -0, 1.5, -(2 ** -149), 3.4028234663852886e38, Number.POSITIVE_INFINITY, Number.NaN]) {
    const bytes = Buffer.alloc(5, 0x0d)
    bytes.writeFloatLE(value, 1)
    const reader = reading(...bytes)
    reader.next()
    t.same(reader.float(), value)
  }
  const mistaken = reading(0x08, 1)
  mistaken.next()
  t.throws(() => mistaken.float(), /field 1 has wire type 0, not 5/)
})

t.test('reading takes the part of a buffer it was given, and lets go of it', async (t) => {
  const whole = Buffer.from([0xff, 0x08, 0x07, 0xff])
  const reader = new ProtobufReader()
  reader.begin(whole.subarray(1, 3))
  t.ok(reader.next())
  t.equal(reader.int32(), 7)
  t.notOk(reader.next())
  reader.release()
  t.equal(reader.bytes.length, 0)
  t.notOk(reader.next())
})
