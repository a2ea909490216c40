/**
 * Random requests of both versions, whole and corrupted, through the decoder and through a plain one.
 * node plugins/remote_write/decoder.fuzz.ts [seconds] [seed]
 */

import { deepStrictEqual } from 'node:assert'
import { WriteBatch } from 'svcdb/lib/columns'
import { atOnce } from 'svcdb/lib/event-loop'
import { Int64 } from 'svcdb/lib/numbers'
import { type Random, seeded } from 'svcdb/lib/random'
import { webAssembly } from 'svcdb/lib/web-assembly'
import { FakeResolver, Message } from 'svcdb/testkit'
import { RequestDecoder } from './decoder.ts'
import { type ReferencePoint, type ReferenceResult, referenceDecode } from './testing-reference.ts'
import { labelOf, STALE, sampleOf, type WireSeries, writeRequest, writeRequestV2 } from './testing-wire.ts'

const pick = <T>(random: Random, list: readonly T[]): T => list[Math.floor(random() * list.length)]
const NAMES = ['__name__', '__name__', 'a', 'job', 'instance', 'é', 'name with spaces', '', 'le']
const VALUES = ['up', 'm', 'x', 'node:9100', '漢字', '', 'a\tb', 'z'.repeat(130)]
const NOT_UTF8 = Uint8Array.of(0x66, 0xff)
/** Where large requests lie when a thread has decompressed them: those are read in runs. */
const PAGES = 4
const shared = new webAssembly!.Memory({ initial: PAGES, maximum: PAGES, shared: true })
const memory = { memory: shared, maxPages: PAGES }

function series(random: Random): WireSeries {
  const labels: WireSeries['labels'] = random() < 0.9 ? [['__name__', pick(random, ['up', 'm', 'x'])]] : []
  for (let i = Math.floor(random() * 4); i > 0; i--)
    labels.push([random() < 0.02 ? NOT_UTF8 : pick(random, NAMES), random() < 0.02 ? NOT_UTF8 : pick(random, VALUES)])
  const count = random() < 0.7 ? 1 : Math.floor(random() * 5)
  const samples = Array.from({ length: count }, () => ({ ms: time(random), value: value(random) }))
  return {
    labels: random() < 0.2 ? labels.reverse() : labels,
    samples,
    ...(random() < 0.2 && { exemplars: 1 + Math.floor(random() * 2) }),
    ...(random() < 0.3 && { metadata: { type: Math.floor(random() * 9), help: pick(random, VALUES), unit: pick(random, VALUES) } }),
  }
}

/** Series as an agent sends them: enough labels for a run, and no two alike. */
function regularSeries(random: Random, number: number): WireSeries {
  const labels: WireSeries['labels'] = [
    ['__name__', pick(random, ['up', 'm', 'x'])],
    ['instance', `n${number}`],
  ]
  for (let i = Math.floor(random() * 6); i >= 0; i--) labels.push([`label_${i}`, 'v'.repeat(Math.floor(random() ** 3 * 150))])
  return { labels, samples: [{ ms: 1_700_000_000_000, value: 1 }] }
}

/** The same series again: mostly in the same order, with one sample each, of which few are odd. */
function again(random: Random, known: readonly WireSeries[]): WireSeries[] {
  const list = known.map((one): WireSeries => {
    const odd = random() < 0.05
    const sample = () => ({ ms: odd ? time(random) : 1_700_000_000_000 + Math.floor(random() * 1e6), value: odd ? value(random) : random() - 0.5 })
    const samples = random() < 0.03 ? [sample(), sample()] : [sample()]
    return { labels: one.labels, samples, ...(random() < 0.02 && { exemplars: 1 }) }
  })
  const at = Math.floor(random() * list.length)
  const shape = random()
  if (shape < 0.1) list.splice(at, 1)
  else if (shape < 0.2) list.splice(at, 0, regularSeries(random, 1000 + Math.floor(random() * 100)))
  else if (shape < 0.3) list.push(...list.splice(0, at))
  else if (shape < 0.4) list[at] = { ...list[at], labels: list[at].labels.slice(0, -1) }
  else if (shape < 0.5) list[at] = { ...list[at], labels: [...list[at].labels, ['more', 'x']] }
  else if (shape < 0.7) {
    const labels = [...list[at].labels]
    const which = Math.floor(random() * labels.length)
    labels[which] = [labels[which][0], `${labels[which][1]}`.replace(/.$/, 'w')]
    list[at] = { ...list[at], labels }
  }
  return list
}

function time(random: Random): number | bigint {
  const shape = random()
  if (shape < 0.7) return 1_700_000_000_000 + Math.floor(random() * 1e6)
  if (shape < 0.8) return pick(random, [0n, 1n, -1n, 9223372036854n, 9223372036855n, -9223372036854n, -9223372036855n, 2n ** 63n - 1n, -(2n ** 63n)])
  return Math.floor((random() - 0.5) * 2 ** Math.floor(random() * 45))
}

function value(random: Random): number | bigint {
  const shape = random()
  if (shape < 0.6) return Math.floor(random() * 1000) / 10
  if (shape < 0.7) return pick(random, [STALE, 0x7ff8000000000001n, 0xfff8000000000000n, 0x7ff0000000000000n, 0xfff0000000000000n, 0x7ff0000000000001n])
  if (shape < 0.8) return pick(random, [0, -0, 5e-324, Number.MAX_VALUE])
  return (random() - 0.5) * 10 ** Math.floor(random() * 300)
}

/** A series of version 1 with its fields in any order, and fields that nobody knows. */
function shuffled(random: Random, { labels, samples = [] }: WireSeries): Buffer {
  const fields = [
    ...labels.map((label) => new Message().put(1, labelOf(label)).done()),
    ...samples.map((sample) => new Message().put(2, sampleOf(sample)).done()),
    new Message().int(99, 5).done(),
    new Message().put(98, 'unknown').done(),
  ]
  const order = fields.map((field) => ({ field, at: random() })).sort((a, b) => a.at - b.at)
  return new Message().put(1, Buffer.concat(order.map(({ field }) => field))).done()
}

/** A request of version 2 whose series differ from those before them in a label or two, with references of one byte and of more. */
function similarSeries(random: Random): Buffer {
  const texts = ['', '__name__', 'up', 'm', ...Array.from({ length: 20 + Math.floor(random() * 300) }, (_, i) => `t${i}`)]
  const any = () => Math.floor(random() * (texts.length + (random() < 0.01 ? 2 : 0)))
  const refs = [1, 2, ...Array.from({ length: Math.floor(random() * 12) * 2 }, any)]
  const rest = new Message()
  for (let i = Math.floor(random() * 40); i > 0; i--) {
    if (random() < 0.8) refs[Math.floor(random() * refs.length)] = any()
    if (refs.length > 1 && random() < 0.3) refs[1] = 2 + Math.floor(random() * 2)
    if (random() < 0.1) refs.splice(Math.floor(random() * refs.length), Math.floor(random() * 3), ...(random() < 0.5 ? [any(), any()] : []))
    const one = new Message()
    const cut = random() < 0.1 ? Math.floor(random() * 2) * Math.floor(random() * refs.length) : refs.length
    if (cut > 0) one.put(1, packedRefs(random, refs.slice(0, cut)))
    if (cut < refs.length && random() < 0.5) one.put(1, packedRefs(random, refs.slice(cut)))
    else for (const ref of refs.slice(cut)) one.int(1, ref)
    one.put(2, sampleOf({ ms: time(random), value: value(random) }))
    if (random() < 0.05) one.put(1, packedRefs(random, [any(), any()]))
    rest.put(5, one.done())
  }
  const out = new Message()
  for (const text of texts) out.put(4, text)
  return out.raw(rest.done()).done()
}

function packedRefs(random: Random, refs: readonly number[]): Buffer {
  const out = new Message()
  for (const ref of refs) {
    if (random() < 0.01)
      out.raw(Buffer.of((ref & 0x7f) | 0x80, (ref >>> 7) | 0x80, 0)) // longer than it need be
    else out.varint(ref)
  }
  return out.done()
}

function corruption(random: Random, message: Buffer): Buffer {
  const bytes = Buffer.from(message)
  for (let i = 1 + Math.floor(random() * 3); i > 0 && bytes.length > 0; i--) bytes[Math.floor(random() * bytes.length)] = Math.floor(random() * 256)
  return random() < 0.3 ? bytes.subarray(0, Math.floor(random() * bytes.length)) : bytes
}

function pointsOf(batch: WriteBatch, resolver: FakeResolver): ReferencePoint[] {
  const points: ReferencePoint[] = []
  const time = new Int64()
  for (const table of batch.tables) {
    for (let row = 0; row < table.rows; row++) {
      const { measurement, tags } = resolver.tagSets[table.series[row]]
      time.low = table.time[row * 2]
      time.high = table.time[row * 2 + 1]
      const [column] = table.columns.filter((each) => each.has(row))
      const halves = column.i32
      const bits = BigInt.asUintN(64, (BigInt(halves[row * 2 + 1]) << 32n) | BigInt(halves[row * 2] >>> 0))
      points.push({ position: table.position[row], metric: measurement.name, field: column.name, tags, time: time.toBigInt(), bits })
    }
  }
  return points
}

/** As sent: a write has a table for each field, and staleness markers beside `value` come before what is in it. */
function sorted(points: ReferencePoint[]): unknown[] {
  const ordered = points.sort((a, b) => a.position - b.position || b.field.length - a.field.length)
  return ordered.map(({ tags, ...rest }) => ({ ...rest, tags: Object.fromEntries(Object.entries(tags).sort(([a], [b]) => (a < b ? -1 : 1))) }))
}

/** Runs while `goesOn(requests)` holds; returns how many requests were compared. @throws when the decoders differ. */
export function fuzz(seed: number, goesOn: (requests: number) => boolean): number {
  const random = seeded(seed)
  let requests = 0
  while (goesOn(requests)) {
    const resolver = new FakeResolver()
    const options = { maxCacheBytes: pick(random, [64, 300, 20_000, 1 << 20]), maxBuckets: 10, memory: () => memory, seed: requests }
    const decoder = new RequestDecoder(resolver, 'default', options)
    const batch = new WriteBatch(resolver)
    const regular = random() < 0.5 ? Array.from({ length: 1 + Math.floor(random() * 80) }, (_, number) => regularSeries(random, number)) : undefined
    const pool = Array.from({ length: 6 }, () => series(random))
    for (let round = 0; round < 8; round++, requests++) {
      const list = Array.from({ length: Math.floor(random() * 8) }, () => (random() < 0.7 ? pick(random, pool) : series(random)))
      const version = regular !== undefined || random() < 0.5 ? 1 : 2
      let message = version === 1 ? writeRequest(list, [{ type: 1, metric: 'up', help: 'h', unit: '' }]) : writeRequestV2(list)
      if (version === 1 && random() < 0.3) message = Buffer.concat(list.map((one) => shuffled(random, one)))
      if (version === 2 && random() < 0.5) message = similarSeries(random)
      if (regular !== undefined) message = writeRequest(again(random, regular))
      if (random() < 0.3) message = corruption(random, message)
      if (random() < 0.8) message = inMemory(random, message)
      compare(version, message, decoder, batch, resolver, seed)
      batch.reset()
    }
  }
  return requests
}

/** The message somewhere in the shared memory, with what lay there before around it. */
function inMemory(random: Random, message: Buffer): Buffer {
  const at = Math.floor(random() * (shared.buffer.byteLength - message.length))
  const placed = Buffer.from(shared.buffer, at, message.length)
  placed.set(message)
  return placed
}

function compare(version: 1 | 2, message: Buffer, decoder: RequestDecoder, batch: WriteBatch, resolver: FakeResolver, seed: number): void {
  let expected: ReferenceResult | 'malformed' = 'malformed'
  try {
    expected = referenceDecode(version, message)
  } catch {
    // It stays malformed.
  }
  let found: unknown = 'malformed'
  let histograms = 0
  try {
    const open = () => new WriteBatch(resolver)
    const outcome = atOnce(decoder.decode(version, message, batch, open, () => {}, { maxSamples: 1e9, maxFailures: 1e9, keepBoth: false, exemplars: true }))
    histograms = outcome.histogramRows + outcome.refusedHistograms
    found = { points: sorted(pointsOf(batch, resolver)), refused: outcome.refusedSamples }
  } catch (error) {
    if ((error as { code?: string }).code !== 'BAD_REQUEST') throw error
  }
  // The oracle knows no histograms; damage can make one.
  if (histograms > 0 || (found === 'malformed' && mayHoldHistograms(version, message))) return
  try {
    deepStrictEqual(found, expected === 'malformed' ? expected : { points: sorted(expected.points), refused: expected.refused })
  } catch (error) {
    throw new Error(`decoders differ, seed ${seed}, version ${version}: ${message.toString('hex')}\n${(error as Error).message}`)
  }
}

/** Whether the tag of a histogram occurs anywhere. */
function mayHoldHistograms(version: 1 | 2, message: Buffer): boolean {
  return message.includes(version === 1 ? 0x22 : 0x1a)
}

if (process.argv[1] === import.meta.filename) {
  const seed = Number(process.argv[3] ?? Date.now() % 1e9)
  const until = Date.now() + Number(process.argv[2] ?? 10) * 1000
  console.log(`seed ${seed}: ${fuzz(seed, () => Date.now() < until)} requests, no difference`)
}
