import type { ServiceDefinition } from '@grpc/grpc-js'
import { WriteBatch } from 'svcdb/lib/columns'
import { atOnce } from 'svcdb/lib/event-loop'
import { ProtobufWriter } from 'svcdb/lib/protobuf'
import { FakeResolver, pointsOf } from 'svcdb/testkit'
import t from 'tap'
import { fuzz } from './points.fuzz.ts'
import { PointsDecoder } from './points.ts'
import { type Message, packageDefinition, point } from './testing.ts'

const OPTIONS = { now: 77n, maxFields: 100, maxFailures: 10 }
const encode = (points: Message[]): Buffer => (packageDefinition['svc.Service'] as ServiceDefinition).Write.requestSerialize({ points })

function parts() {
  const resolver = new FakeResolver()
  return { resolver, decoder: new PointsDecoder(resolver, 'default', 1 << 20, 7), batch: new WriteBatch(resolver) }
}

t.test('a series is taken apart once, whatever the order of the series', async (t) => {
  const { resolver, decoder, batch } = parts()
  const hosts = (order: number[]) => encode(order.map((i) => point('cpu', i + 1, { host: `h${i}` }, { v: i })))
  atOnce(decoder.decode(hosts([0, 1, 2, 3]), batch, OPTIONS))
  t.equal(resolver.calls, 4)
  for (const order of [[0, 1, 2, 3], [3, 1, 0, 2, 2], [2]]) {
    batch.reset()
    atOnce(decoder.decode(hosts(order), batch, OPTIONS))
    t.same(
      pointsOf(batch, resolver).map(({ tags, fields }) => [tags.host, fields.v]),
      order.map((i) => [`h${i}`, i]),
    )
  }
  t.equal(resolver.calls, 4)
  resolver.epoch++
  batch.reset()
  atOnce(decoder.decode(hosts([0]), batch, OPTIONS))
  t.equal(resolver.calls, 5, 'numbers of series that have become invalid are forgotten')
})

t.test('members in any order', async (t) => {
  const writer = new ProtobufWriter()
  const tag = (key: string, value: string) => () => {
    const mark = writer.open(2)
    writer.string(2, value)
    writer.string(1, key)
    writer.close(mark)
  }
  const field = (name: string, value: number) => () => {
    const mark = writer.open(3)
    const inner = writer.open(2)
    writer.double(1, value)
    writer.close(inner)
    writer.string(1, name)
    writer.close(mark)
  }
  const time = () => writer.int(4, 5)
  const name = () => writer.string(1, 'cpu')
  const expected = { measurement: 'cpu', tags: { a: 'x', b: 'y' }, time: 5n, fields: { u: 1, v: 2 } }
  const orders = [
    [name, tag('a', 'x'), tag('b', 'y'), field('u', 1), field('v', 2), time],
    [time, field('v', 2), field('u', 1), tag('b', 'y'), tag('a', 'x'), name],
    [tag('a', 'x'), name, field('u', 1), time, tag('b', 'y'), field('v', 2)],
    [name, tag('a', 'x'), field('u', 1), field('v', 2), time, tag('b', 'y')],
    [field('u', 1), name, tag('a', 'x'), tag('b', 'y'), time, field('v', 2)],
  ]
  const { resolver, decoder, batch } = parts()
  for (const order of [...orders, ...orders]) {
    const mark = writer.open(1)
    for (const part of order) part()
    writer.close(mark)
  }
  t.match(atOnce(decoder.decode(writer.take(), batch, OPTIONS)), { rows: 10, rejected: 0 })
  t.match(
    pointsOf(batch, resolver),
    Array.from({ length: 10 }, (_, position) => ({ position, ...expected })),
  )
})

t.test('what a cut message has begun is taken back', async (t) => {
  const { resolver, decoder, batch } = parts()
  const good = encode([point('cpu', 1, {}, { v: 1, s: 'a' })])
  atOnce(decoder.decode(good, batch, OPTIONS))
  const more = encode([point('cpu', 2, {}, { v: 2 }), point('mem', 2, {}, { v: true }), point('cpu', 3, {}, { v: 3, w: 3 })])
  for (let length = good.length; length < more.length; length++) {
    let failed = false
    try {
      atOnce(decoder.decode(more.subarray(0, length), batch, OPTIONS, 1))
    } catch {
      failed = true
    }
    if (failed) t.equal(batch.rows, 1)
    else {
      // Cut between two points.
      t.ok(batch.rows < 4)
      for (const table of batch.tables) table.dropRows(table.measurement?.name === 'cpu' ? 1 : 0)
    }
  }
  t.match(atOnce(decoder.decode(more, batch, OPTIONS, 1)), { rows: 3 })
  t.same(
    pointsOf(batch, resolver).map(({ position, fields }) => [position, fields]),
    [
      [0, { v: 1, s: 'a' }],
      [1, { v: 2 }],
      [2, { v: true }],
      [3, { v: 3, w: 3 }],
    ],
  )
})

t.test('no more reasons than wanted', async (t) => {
  const { decoder, batch } = parts()
  const { rejected, rejections } = atOnce(decoder.decode(encode(Array.from({ length: 30 }, () => point('cpu', 1, {}, {}))), batch, OPTIONS))
  t.same([rejected, rejections.length], [30, 10])
})

t.test('random messages, as the fuzzer makes them', async (t) => {
  t.ok(fuzz(4, (messages) => messages < 2000) >= 2000)
})
