import t from 'tap'
import { ProtobufReader } from './reader.ts'
import { ProtobufWriter } from './writer.ts'

const hex = (write: (writer: ProtobufWriter) => void): string => {
  const writer = new ProtobufWriter(1)
  write(writer)
  return Buffer.from(writer.take()).toString('hex')
}

t.test('the examples of the format description', async (t) => {
  t.equal(
    hex((w) => w.int(1, 150)),
    '089601',
  )
  t.equal(
    hex((w) => w.string(2, 'testing')),
    '120774657374696e67',
  )
  t.equal(
    hex((w) => {
      const mark = w.open(3)
      w.int(1, 150)
      w.close(mark)
    }),
    '1a03089601',
  )
  t.equal(
    hex((w) => w.int(1, -2)),
    '08feffffffffffffffff01',
  )
  t.equal(
    hex((w) => w.sint(1, -2)),
    '0803',
  )
})

t.test('what is written is read back', async (t) => {
  const integers = [0, 1, 127, 128, 2 ** 31 - 1, 2 ** 31, 2 ** 32, 2 ** 45 + 1, Number.MAX_SAFE_INTEGER]
  const writer = new ProtobufWriter(8)
  for (const value of integers) {
    writer.int(1, value)
    writer.int(1, -value)
    writer.sint(2, value / 4 < 2 ** 50 ? value : 5)
    writer.sint(2, value / 4 < 2 ** 50 ? -value : -5)
  }
  const reader = new ProtobufReader()
  reader.begin(writer.take())
  const wanted = integers.flatMap((value) => [value, -value, value / 4 < 2 ** 50 ? value : 5, value / 4 < 2 ** 50 ? -value : -5])
  const got: number[] = []
  while (reader.next()) {
    if (reader.field === 1) reader.int64()
    else reader.zigzag()
    got.push(reader.signed + 0)
  }
  t.same(
    got,
    wanted.map((value) => value + 0),
  )
})

t.test('messages of any length within messages', async (t) => {
  for (const length of [0, 1, 127, 128, 16_383, 16_384, 300_000]) {
    const writer = new ProtobufWriter(4)
    const outer = writer.open(1)
    writer.int(7, 1)
    const inner = writer.open(20)
    writer.string(2, 'ü'.repeat(length))
    writer.blob(3, new Uint8Array(length).fill(9))
    writer.close(inner)
    writer.doubles(4, [1.5, -0])
    writer.sints(5, [-1, 2 ** 40])
    writer.fixed64(6, 2, 0x7ff00000)
    writer.close(outer)
    writer.double(2, 0.25)
    const reader = new ProtobufReader()
    reader.begin(writer.take())
    t.ok(reader.next())
    const end = reader.enter()
    t.ok(reader.next() && reader.field === 7 && reader.int32() === 1)
    t.ok(reader.next() && reader.field === 20)
    const innerEnd = reader.enter()
    t.ok(reader.next())
    const start = reader.span()
    t.equal(Buffer.from(reader.bytes.subarray(start, reader.at)).toString(), 'ü'.repeat(length))
    t.ok(reader.next())
    const blob = reader.span()
    t.equal(reader.at - blob, length)
    reader.leave(innerEnd)
    t.ok(reader.next() && reader.field === 4)
    const doubles = reader.span()
    t.same([reader.view.getFloat64(doubles, true), reader.view.getFloat64(doubles + 8, true), reader.at - doubles], [1.5, -0, 16])
    t.ok(reader.next() && reader.field === 5)
    const packed = reader.enter()
    reader.zigzag()
    t.equal(reader.signed, -1)
    reader.zigzag()
    t.equal(reader.signed, 2 ** 40)
    reader.leave(packed)
    t.ok(reader.next() && reader.field === 6)
    reader.fixed64()
    t.same([reader.low, reader.high], [2, 0x7ff00000])
    reader.leave(end)
    t.ok(reader.next() && reader.field === 2)
    t.equal(reader.double(), 0.25)
    t.notOk(reader.next())
  }
})
