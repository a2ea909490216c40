/**
 * Random writes, whole and corrupted, through the column decoder and a plain one; whole ones also through protobufjs.
 * node plugins/grpc/points.fuzz.ts [seconds] [seed]
 */

import { deepStrictEqual, strictEqual } from 'node:assert'
import type { ServiceDefinition } from '@grpc/grpc-js'
import { WriteBatch } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import { atOnce } from 'svcdb/lib/event-loop'
import { encodeHistogram, staleHistogram } from 'svcdb/lib/histogram'
import { ProtobufWriter } from 'svcdb/lib/protobuf'
import { type Random, seeded } from 'svcdb/lib/random'
import { FakeResolver, pointsOf } from 'svcdb/testkit'
import { PointsDecoder, type PointsOutcome } from './points.ts'
import { type Message, packageDefinition } from './testing.ts'
import { type ReferencePoint, referencePoints } from './testing-reference.ts'

const NOW = 77n
const NONE = new Float64Array(0)
const pick = <T>(random: Random, list: readonly T[]): T => list[Math.floor(random() * list.length)]
const NAMES = ['a', 'b', 'usage', 'é', '漢字', '__proto__', 'n'.repeat(140)]
const VALUES = ['', 'x', 'eu-west-1', 'ü', 'v'.repeat(200)]
const DECIMALS = [
  '1',
  '-0.50',
  '12.3400',
  '.5',
  '-.5',
  '+.5',
  '+5',
  '+-5',
  '+',
  '5.',
  '00.10',
  '-0',
  'x',
  '',
  '1e5',
  '1'.repeat(38),
  '1'.repeat(39),
  '0'.repeat(60),
  `.${'0'.repeat(39)}`,
]
const BITS = [0n, 1n, -1n, 127n, 128n, 2n ** 31n, 2n ** 32n, 2n ** 53n + 1n, 2n ** 63n - 1n, -(2n ** 63n), 1_700_000_000_000_000_000n]

type Write = (writer: ProtobufWriter) => void

/** The parts of a message, mostly in order, with fields that nobody knows. */
function mixed(random: Random, parts: Write[], keepOrder: number): Write {
  const all = [...parts]
  if (random() < 0.05) all.splice(Math.floor(random() * (all.length + 1)), 0, (writer) => writer.int(15, 5))
  if (random() < 0.05) all.splice(Math.floor(random() * (all.length + 1)), 0, (writer) => writer.string(2000, 'unknown'))
  if (random() > keepOrder) all.sort(() => random() - 0.5)
  return (writer) => {
    for (const part of all) part(writer)
  }
}

function within(field: number, content: Write): Write {
  return (writer) => {
    const mark = writer.open(field)
    content(writer)
    writer.close(mark)
  }
}

function bits(random: Random): [low: number, high: number] {
  const value = random() < 0.5 ? pick(random, BITS) : BigInt(Math.floor((random() - 0.5) * 2 ** Math.floor(random() * 52)))
  return [Number(BigInt.asIntN(32, value)), Number(BigInt.asIntN(32, value >> 32n))]
}

/** Of the value that a name mostly has: one for each name. */
const KINDS = [1, 2, 3, 4, 5, 6, 8]

function histogram(random: Random): Uint8Array {
  if (random() < 0.1) return staleHistogram()
  const count = Math.floor(random() * 20)
  const bytes = encodeHistogram({
    schema: Math.floor(random() * 13) - 4,
    counterReset: 'unknown',
    count,
    sum: random() * 100,
    zeroThreshold: 0,
    // One that does not add up is refused.
    zeroCount: random() < 0.1 ? 1 : 0,
    positiveSpans: [{ offset: Math.floor(random() * 9) - 4, length: 1 }],
    positiveCounts: Float64Array.of(count),
    negativeSpans: [],
    negativeCounts: NONE,
    customBounds: NONE,
    integer: true,
  })
  return random() < 0.1 ? corrupted(random, bytes) : bytes
}

function value(random: Random, kind: number): Write {
  if (kind === 1) return (writer) => writer.double(1, pick(random, [0, -0, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 5e-324, random()]))
  if (kind === 2 || kind === 3) return (writer) => writer.int64(kind, ...bits(random))
  if (kind === 4) return (writer) => writer.int(4, random() < 0.5 ? 1 : 0)
  if (kind === 5) return (writer) => writer.string(5, pick(random, VALUES))
  if (kind === 6) return (writer) => writer.string(6, pick(random, DECIMALS))
  if (kind === 8) return (writer) => writer.blob(8, histogram(random))
  return (writer) => writer.string(7, '{}')
}

function field(random: Random, name: string): Write {
  // A name mostly has a type.
  const kind = random() < 0.9 ? KINDS[NAMES.indexOf(name)] : Math.floor(random() * 9)
  const content = kind === 0 ? [] : [value(random, kind), ...(random() < 0.03 ? [value(random, pick(random, KINDS))] : [])]
  return within(3, mixed(random, [(writer) => writer.string(1, name), within(2, mixed(random, content, 1))], 0.95))
}

function point(random: Random): Write {
  const names = NAMES.slice(0, 1 + Math.floor(random() * NAMES.length))
  if (random() < 0.03) names.push(names[0])
  const tags = Array.from({ length: Math.floor(random() * 4) }, () => [pick(random, NAMES), pick(random, VALUES)])
  const parts: Write[] = [
    (writer) => writer.string(1, pick(random, ['cpu', 'm', 'é'])),
    ...tags.map(([key, text]) => within(2, mixed(random, [(writer) => writer.string(1, key), (writer) => writer.string(2, text)], 0.95))),
    ...names.map((name) => field(random, name)),
    (writer) => writer.int64(4, ...bits(random)),
  ]
  return within(1, mixed(random, random() < 0.95 ? parts : parts.filter(() => random() < 0.8), 0.8))
}

function corrupted(random: Random, message: Uint8Array): Uint8Array {
  const bytes = Uint8Array.from(message)
  for (let i = 1 + Math.floor(random() * 3); i > 0 && bytes.length > 0; i--) bytes[Math.floor(random() * bytes.length)] = Math.floor(random() * 256)
  return random() < 0.3 ? bytes.subarray(0, Math.floor(random() * bytes.length)) : bytes
}

/** What the decoder has made of a message has to be what the plain one says. A point that is refused is not looked at further. */
function compare(outcome: PointsOutcome | undefined, batch: WriteBatch, resolver: FakeResolver, expected: readonly ReferencePoint[] | undefined): void {
  if (outcome === undefined) {
    if (expected !== undefined && !expected.includes('malformed')) throw new Error('the message was refused')
    return
  }
  if (expected === undefined) throw new Error('the message was not refused')
  const refused = new Set(outcome.rejections.map(({ position }) => position))
  const found = pointsOf(batch, resolver)
  strictEqual(found.length, outcome.rows)
  strictEqual(refused.size, outcome.rejected)
  strictEqual(found.length + refused.size, expected.length)
  for (const [position, one] of expected.entries())
    if (typeof one === 'string' && !refused.has(position)) throw new Error(`points[${position}] is ${one}, and was taken`)
  deepStrictEqual(
    found,
    expected.filter((one) => typeof one !== 'string'),
  )
}

/** protobufjs agrees on what a whole message says: names and times. */
function compareWithLibrary(message: Uint8Array, expected: readonly ReferencePoint[]): void {
  const { requestDeserialize } = (packageDefinition['svc.Service'] as ServiceDefinition).Write
  const { points } = requestDeserialize(Buffer.from(message)) as Message
  strictEqual(points.length, expected.length)
  for (const [i, one] of expected.entries()) {
    if (typeof one === 'string') continue
    strictEqual(points[i].measurement, one.measurement)
    strictEqual(BigInt(points[i].timestamp) || NOW, one.time)
    deepStrictEqual(points[i].fields.map((each: Message) => each.key).sort(), Object.keys(one.fields).sort())
  }
}

/** Runs while `goesOn(messages)` holds; returns how many messages were compared. @throws when the decoders differ. */
export function fuzz(seed: number, goesOn: (messages: number) => boolean): number {
  const random = seeded(seed)
  let messages = 0
  while (goesOn(messages)) {
    const resolver = new FakeResolver()
    const decoder = new PointsDecoder(resolver, 'default', pick(random, [512, 4096, 1 << 20]), messages)
    const earlier: Write[] = []
    for (let round = 0; round < 6; round++) {
      const batch = new WriteBatch(resolver)
      const writer = new ProtobufWriter()
      // Senders repeat their series: that is what the table of keys is for.
      const writes = Array.from({ length: Math.floor(random() * 6) }, () => (earlier.length > 0 && random() < 0.5 ? pick(random, earlier) : point(random)))
      earlier.push(...writes)
      for (const write of writes) write(writer)
      const whole = writer.take()
      const broken = random() < 0.5
      const message = broken ? corrupted(random, whole) : whole
      messages++
      const expected = referencePoints(message, NOW)
      try {
        let outcome: PointsOutcome | undefined
        try {
          outcome = atOnce(decoder.decode(message, batch, { now: NOW, maxFields: 1000, maxFailures: 1000 }))
        } catch (error) {
          if (!(error instanceof SvcError) || error.code !== 'BAD_REQUEST') throw error
          strictEqual(batch.rows, 0, 'what was appended is taken back')
        }
        compare(outcome, batch, resolver, expected)
        if (!broken) compareWithLibrary(message, expected as ReferencePoint[])
      } catch (error) {
        throw new Error(`decoders differ, seed ${seed}, message ${messages}: ${Buffer.from(message).toString('hex')}\n${(error as Error).stack}`)
      }
    }
  }
  return messages
}

if (process.argv[1] === import.meta.filename) {
  const seed = Number(process.argv[3] ?? Date.now() % 1e9)
  const until = Date.now() + Number(process.argv[2] ?? 10) * 1000
  console.log(`seed ${seed}: ${fuzz(seed, () => Date.now() < until)} messages, no difference`)
}
