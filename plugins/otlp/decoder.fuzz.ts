/**
 * Random requests, whole and corrupted, through the decoder and through a plain one; and as JSON, which must come to the same.
 * node plugins/otlp/decoder.fuzz.ts [seconds] [seed]
 */

import { deepStrictEqual } from 'node:assert'
import { type Random, seeded } from 'svcdb/lib/random'
import { Message } from 'svcdb/testkit'
import { messageOfJson } from './json-request.ts'
import { AsciiResolver, decoding } from './testing-decoding.ts'
import { type ReferenceResult, referenceDecode } from './testing-reference.ts'
import type { WireAttributes, WireExponential, WireHistogram, WireMetric, WireNumber, WirePoint, WireResource, WireSummary, WireValue } from './testing-wire.ts'
import { metricOf, numberPoint, writeRequest } from './testing-wire.ts'
import { requestJson } from './testing-wire-json.ts'

const pick = <T>(random: Random, list: readonly T[]): T => list[Math.floor(random() * list.length)]
const count = (random: Random, most: number): number => Math.floor(random() * (most + 1))
const times = <T>(n: number, make: () => T): T[] => Array.from({ length: n }, make)
const KEYS = ['host.name', 'a', 'b', 'état', 'k'.repeat(130), '']
const TEXTS = ['x', 'web-1', '漢字', '', 'v'.repeat(200), '"quoted"', 'tab\t']
const NUMBERS = [0, -0, 1.5, -2, 1e300, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 5e-324]
const INTS = [0n, 1n, -1n, 2n ** 53n + 1n, 2n ** 63n - 1n, -(2n ** 63n)]

function anyValue(random: Random, depth = 0): WireValue {
  const shape = random()
  if (shape < 0.6 || depth > 3) return pick(random, TEXTS)
  if (shape < 0.68) return pick(random, INTS)
  if (shape < 0.75) return pick(random, NUMBERS)
  if (shape < 0.8) return random() < 0.5
  if (shape < 0.84) return Uint8Array.from(times(count(random, 5), () => Math.floor(random() * 256)))
  if (shape < 0.88) return null
  if (shape < 0.94) return times(count(random, 3), () => anyValue(random, depth + 1))
  return new Map(times(count(random, 3), () => [pick(random, TEXTS), anyValue(random, depth + 1)]))
}

function attributes(random: Random): WireAttributes {
  return Object.fromEntries(times(count(random, 3), () => [pick(random, KEYS), anyValue(random)]))
}

function point(random: Random): WirePoint {
  const time = random() < 0.95 ? 1_700_000_000_000_000_000n + BigInt(count(random, 1e9)) : pick(random, [0n, 1n, 2n ** 63n - 1n, 2n ** 63n, 2n ** 64n - 1n])
  return {
    time,
    attributes: attributes(random),
    ...(random() < 0.5 && { start: time }),
    ...(random() < 0.1 && { flags: count(random, 3) }),
    ...(random() < 0.1 && { exemplars: 1 + count(random, 2) }),
  }
}

const number = (random: Random): number => (random() < 0.7 ? count(random, 1000) / 10 : pick(random, NUMBERS))

function numberOf(random: Random): WireNumber {
  const value = random() < 0.6 ? number(random) : random() < 0.9 ? pick(random, INTS) : undefined
  return { ...point(random), ...(value !== undefined && { value }) }
}

const countsOf = (random: Random): bigint[] => times(count(random, 12), () => (random() < 0.4 ? 0n : BigInt(count(random, random() < 0.1 ? 1e6 : 20))))
const total = (list: readonly bigint[]): bigint => list.reduce((a, b) => a + b, 0n)
const total1 = (random: Random, sum: bigint): bigint => (random() < 0.9 ? sum : sum + BigInt(count(random, 2)))

function histogramOf(random: Random): WireHistogram {
  const counts = random() < 0.9 ? [...countsOf(random), 1n] : []
  const bounds = counts.slice(1).map((_, i) => i - 3 + random())
  if (random() < 0.05) bounds.push(Number.NaN)
  return {
    ...point(random),
    counts,
    bounds,
    count: total1(random, total(counts)),
    ...(random() < 0.8 && { sum: number(random) }),
    ...(random() < 0.3 && { min: 0, max: 1 }),
  }
}

function exponentialOf(random: Random): WireExponential {
  const side = () => ({
    offset: random() < 0.95 ? count(random, 200) - 100 : pick(random, [2 ** 31 - 1, -(2 ** 31), 2 ** 30, -(2 ** 30)]),
    counts: countsOf(random),
  })
  const positive = random() < 0.8 ? side() : undefined
  const negative = random() < 0.3 ? side() : undefined
  const zeroCount = BigInt(count(random, 3))
  const sum = zeroCount + total(positive?.counts ?? []) + total(negative?.counts ?? [])
  return {
    ...point(random),
    count: total1(random, sum),
    ...(random() < 0.8 && { sum: number(random) }),
    scale: random() < 0.9 ? count(random, 16) - 4 : pick(random, [-5, -11, 20, 52, 53]),
    zeroCount,
    ...(random() < 0.3 && { zeroThreshold: pick(random, [0, 0.5, 2 ** -128, 1e-9, -1]) }),
    ...(positive && { positive }),
    ...(negative && { negative }),
  }
}

function summaryOf(random: Random): WireSummary {
  const quantiles = times(count(random, 3), (): [number, number] => [random() < 0.97 ? pick(random, [0, 0.5, 0.99, 1]) : 2, number(random)])
  return { ...point(random), count: BigInt(count(random, 100)), sum: number(random), quantiles }
}

function metric(random: Random): WireMetric {
  const many = <T>(make: (random: Random) => T): T[] => times(count(random, 4), () => make(random))
  const name = pick(random, ['m', 'cpu.time', 'x', 'é', 'n'.repeat(140)])
  const header = { name, ...(random() < 0.5 && { unit: 's', description: pick(random, TEXTS) }) }
  const of = { ...(random() < 0.8 && { temporality: count(random, 2) }), ...(random() < 0.5 && { monotonic: true }) }
  // A metric's name goes with its kind: of two types only the storage knows what to think.
  switch (name) {
    case 'm':
      return { ...header, ...of, sum: many(numberOf) }
    case 'x':
      return { ...header, ...of, histogram: many(histogramOf) }
    case 'é':
      return { ...header, summary: many(summaryOf) }
    case 'cpu.time':
      return { ...header, gauge: many(numberOf) }
    default:
      return { ...header, ...of, exponential: many(exponentialOf) }
  }
}

function request(random: Random, pool: readonly WireMetric[], resources: readonly WireAttributes[]): WireResource[] {
  return times(1 + count(random, 2), () => ({
    ...(random() < 0.9 && { attributes: pick(random, resources) }),
    scopes: times(count(random, 2), () => ({
      ...(random() < 0.7 && { name: 'lib', version: '1' }),
      metrics: times(count(random, 4), () => (random() < 0.6 ? pick(random, pool) : metric(random))),
    })),
  }))
}

/** A request whose fields come in any order and in parts, as only the format allows it. */
function shuffled(random: Random): Buffer {
  const mixed = (parts: Buffer[]): Buffer => Buffer.concat(parts.map((part) => ({ part, at: random() })).sort((a, b) => a.at - b.at).map(({ part }) => part)) // biome-ignore format: one step a line says no more
  const field = (number: number, value: Uint8Array | string): Buffer => new Message().put(number, value).done()
  const unknown = (): Buffer[] => (random() < 0.3 ? [new Message().int(99, 5).done(), field(98, 'unknown')] : [])
  const points = (): Buffer => mixed([...times(count(random, 2), () => field(1, pointOf())), new Message().int(2, 2).done(), ...unknown()])
  const pointOf = (): Buffer => mixed([...fields(numberPoint(numberOf(random))), ...unknown()])
  const metrics = (): Buffer => mixed([field(1, pick(random, ['m', 'x'])), field(3, 's'), field(7, points()), ...(random() < 0.4 ? [field(7, points())] : []), ...(random() < 0.1 ? [field(5, points())] : [])]) // biome-ignore format: as above
  const resource = (): Buffer => field(1, field(1, new Message().put(1, pick(random, KEYS)).put(2, field(1, 'v')).done()))
  const scope = (): Buffer => field(2, mixed([field(2, random() < 0.5 ? metrics() : metricOf(metric(random))), field(1, field(1, 'lib')), ...unknown()]))
  return field(1, mixed([resource(), scope(), ...(random() < 0.5 ? [resource()] : []), scope(), ...unknown()]))
}

/** The fields of a message that `testing-wire.ts` has written, each with its tag. */
function fields(message: Buffer): Buffer[] {
  const parts: Buffer[] = []
  for (let at = 0; at < message.length; ) {
    const wire = message[at] & 7
    let end = at + 9
    if (wire === 0) {
      end = at + 1
      while (message[end] >= 0x80) end++
      end++
    } else if (wire === 2) {
      let length = 0
      end = at + 1
      for (let shift = 0; ; shift += 7) {
        length |= (message[end] & 127) << shift
        if (message[end++] < 0x80) break
      }
      end += length
    }
    parts.push(message.subarray(at, end))
    at = end
  }
  return parts
}

function corruption(random: Random, message: Buffer): Buffer {
  const bytes = Buffer.from(message)
  for (let i = 1 + count(random, 2); i > 0 && bytes.length > 0; i--) bytes[Math.floor(random() * bytes.length)] = Math.floor(random() * 256)
  return random() < 0.3 ? bytes.subarray(0, Math.floor(random() * bytes.length)) : bytes
}

type Decoding = ReturnType<typeof decoding>

function decoded(decoder: Decoding, message: Uint8Array): ReferenceResult | 'malformed' {
  try {
    const { refused, skipped, exemplars } = decoder.decode(message)
    return { points: decoder.points(), refused, skipped, exemplars }
  } catch (error) {
    if ((error as { code?: string }).code !== 'BAD_REQUEST') throw error
    return 'malformed'
  }
}

function compare(decoder: Decoding, message: Buffer, seed: number): void {
  let expected: ReferenceResult | 'malformed' = 'malformed'
  try {
    expected = referenceDecode(message)
  } catch {
    // It stays malformed.
  }
  try {
    deepStrictEqual(plain(decoded(decoder, message)), plain(expected))
  } catch (error) {
    throw new Error(`decoders differ, seed ${seed}: ${message.toString('hex')}\n${(error as Error).message}`)
  }
}

function compareJson(random: Random, resources: WireResource[], decoder: Decoding, seed: number): void {
  const text = Buffer.from(JSON.stringify(requestJson(resources)))
  const fromProtobuf = plain(decoded(decoder, writeRequest(resources)))
  try {
    deepStrictEqual(plain(decoded(decoder, messageOfJson(text))), fromProtobuf)
  } catch (error) {
    throw new Error(`encodings differ, seed ${seed}: ${text}\n${(error as Error).message}`)
  }
  try {
    decoded(decoder, messageOfJson(corruption(random, text)))
  } catch (error) {
    if ((error as { code?: string }).code !== 'BAD_REQUEST') throw new Error(`damaged JSON, seed ${seed}: ${text}`, { cause: error })
  }
}

/** Tags by name, so that their order does not count. */
function plain(result: ReferenceResult | 'malformed'): unknown {
  if (result === 'malformed') return result
  const sorted = (tags: Record<string, string>) => Object.fromEntries(Object.entries(tags).sort(([a], [b]) => (a < b ? -1 : 1)))
  return { ...result, points: result.points.map((each) => ({ ...each, tags: sorted(each.tags) })) }
}

/** Runs while `goesOn(requests)` holds; returns how many requests were compared. @throws when the decoders differ. */
export function fuzz(seed: number, goesOn: (requests: number) => boolean): number {
  const random = seeded(seed)
  let requests = 0
  while (goesOn(requests)) {
    const decoder = decoding(
      { maxCacheBytes: pick(random, [64, 600, 1 << 20]), seed: requests },
      { maxPoints: 1e9, maxFailures: 10, exemplars: true },
      random() < 0.5 ? new AsciiResolver() : undefined,
    )
    const pool = times(6, () => metric(random))
    const resources = times(3, () => attributes(random))
    for (let round = 0; round < 8; round++, requests++) {
      const resource = request(random, pool, resources)
      compareJson(random, resource, decoder, seed)
      const message = random() < 0.3 ? shuffled(random) : writeRequest(resource)
      compare(decoder, random() < 0.4 ? corruption(random, message) : message, seed)
    }
  }
  return requests
}

if (process.argv[1] === import.meta.filename) {
  const seed = Number(process.argv[3] ?? Date.now() % 1e9)
  const until = Date.now() + Number(process.argv[2] ?? 10) * 1000
  console.log(`seed ${seed}: ${fuzz(seed, () => Date.now() < until)} requests, no difference`)
}
