/** Random operations by seed, on the engine and on the oracle at once; everything the two answer must be the same. */
import type { DeleteRequest, Matcher, MeasurementInfo, ScanRequest, StorageEngine, WriteResult } from 'svcdb'
import type { SampleRequest } from 'svcdb/lib/columns'
import { seeded } from 'svcdb/lib/random'
import { INT64_MAX, INT64_MIN } from '../common/time.ts'
import { createEngine as createOracle } from '../memory/index.ts'
import { type MakeEngine, testContext } from './context.ts'
import {
  bits,
  bool,
  dec,
  f64,
  fill,
  HOUR,
  hist,
  INFINITE,
  i64,
  lines,
  MINUTE,
  NAN,
  NEGATIVE_INFINITE,
  NOW,
  NOW_MS,
  STALE,
  str,
  type TestPoint,
  type TestValue,
  u64,
  write,
} from './points.ts'
import { compareSamples } from './samples.ts'

/** The budget of series is met by rules of its own. */
export const unbudgeted = { max_series_cardinality: 1_000_000 }
export const randomConfig = {
  max_series_cardinality: 60,
  max_tags_per_measurement: 4,
  max_fields_per_measurement: 12,
  max_string_bytes: 200,
  soft_delete_ttl_secs: 86_400,
}

export class Random {
  readonly next: () => number

  constructor(seed: number) {
    this.next = seeded(seed)
  }

  below(n: number): number {
    return Math.floor(this.next() * n)
  }
  chance(p: number): boolean {
    return this.next() < p
  }
  pick<T>(items: readonly T[]): T {
    return items[this.below(items.length)]
  }
}

/**
 * One run. @throws Error that names the seed, the step and the first difference.
 * @param steps operations, more than half of them writes.
 * @param late series are resolved when a batch is written: a row must be refused by both, not for the same reason, and of batches under way together none
 *   knows the fields that another creates.
 */
export async function randomRun(
  makeEngine: MakeEngine,
  seed: number,
  steps: number,
  config = randomConfig,
  late = false,
): Promise<{ points: number; compared: number }> {
  const random = new Random(seed)
  const now = () => NOW_MS
  const oracle = createOracle(testContext(config, now))
  await oracle.open()
  const subject = await makeEngine(config, now)
  let engine = subject.engine
  const totals = { points: 0, compared: 0 }
  const log: string[] = []
  let again: Batch | undefined
  try {
    for (let step = 0; step < steps; step++) {
      const dice = random.next()
      if (dice < 0.55) {
        const batches = Array.from({ length: random.chance(0.2) ? 3 : 1 }, () => randomBatch(random))
        log.push(`write ${batches.map((b) => b.points.length).join('+')}`)
        for (const { points } of batches) totals.points += points.length
        again = batches[0]
        const together = !late || (await fieldsKnown(oracle, batches))
        same('write', await writeAll(oracle, batches, { late, together }), await writeAll(engine, batches, { late, together }))
      } else if (dice < 0.65) {
        log.push('flush')
        await engine.flush()
      } else if (dice < 0.72 && subject.reopen !== undefined) {
        log.push('reopen')
        engine = await subject.reopen()
      } else if (dice < 0.75) {
        log.push('recycle')
        const { points, namespace } = randomBatch(random)
        for (const storage of [oracle, engine]) storage.recycle(fill(storage, points, namespace).batch)
      } else if (dice < 0.82) {
        const request = randomDelete(random)
        log.push(`delete ${text(request)}`)
        same('delete', await codeOf(() => oracle.delete(request)), await codeOf(() => engine.delete(request)))
        // A part of what is gone comes again, so that old fields and new ones lie at the same times.
        if (again !== undefined && random.chance(0.5)) {
          const batch = { ...again, points: again.points.filter(() => random.chance(0.5)) }
          log.push(`write again ${batch.points.length}`)
          const settings = { late, together: true }
          same('write again', await writeAll(oracle, [batch], settings), await writeAll(engine, [batch], settings))
        }
      } else if (dice < 0.84) {
        const [namespace, measurement] = [randomNamespace(random), random.pick(NAMES)]
        const final = random.chance(0.3)
        log.push(`drop ${namespace} ${measurement}${final ? ' for good' : ''}`)
        same('drop', await codeOf(() => oracle.drop(namespace, measurement, { final })), await codeOf(() => engine.drop(namespace, measurement, { final })))
      } else if (dice < 0.87) {
        const [namespace, measurement] = [randomNamespace(random), random.pick(NAMES)]
        log.push(`restore ${namespace} ${measurement}`)
        same('restore', await codeOf(() => oracle.restore(namespace, measurement)), await codeOf(() => engine.restore(namespace, measurement)))
      } else {
        const request = randomScan(random)
        log.push(`scan ${text(request)}`)
        totals.compared += await compare(request, oracle, engine)
        const samples = randomSamples(random, request)
        log.push(`samples ${text(samples)}`)
        totals.compared += await compareSamples(samples, oracle, engine)
      }
    }
    log.push('final comparison')
    for (const namespace of NAMESPACES) {
      const names = (await oracle.measurements(namespace)).map((m) => m.name)
      same('measurements', await schemas(oracle, namespace), await schemas(engine, namespace))
      same(
        'page of measurements',
        names.slice(1, 3),
        (await engine.measurementsPage({ namespace, offset: 1, limit: 2 })).items.map((m) => m.name),
      )
      for (const measurement of names) {
        totals.compared += await compare({ namespace, measurement }, oracle, engine)
        for (const field of FIELDS) totals.compared += await compareSamples({ namespace, measurement, field }, oracle, engine)
      }
    }
    return totals
  } catch (error) {
    const told = log.slice(-KEPT_LOG).map((line, i) => `  ${Math.max(0, log.length - KEPT_LOG) + i + 1} ${line}`)
    throw new Error(`SVC_SEED=${seed} fails at operation ${log.length}: ${(error as Error).message}\noperations:\n${told.join('\n')}`, { cause: error })
  } finally {
    await subject.dispose()
  }
}

const NAMESPACES = ['default', 'other']
const MEASUREMENTS = ['cpu', 'mem', 'weather station', 'τ']
const NAMES = [...MEASUREMENTS, 'unknown']
/** Operations that a failure tells. */
const KEPT_LOG = 100
export const FIELDS = ['a', 'b', 'f', 'i', 'u', 's', 'd', 'wide', 'h', 'value']
const HOSTS = ['a', 'b', 'ab', 'c\nd', 'ä', '😀', '']

interface Batch {
  namespace: string
  backfill: boolean
  nonFinite: boolean
  points: TestPoint[]
}

function randomBatch(random: Random): Batch {
  const size = random.chance(0.1) ? 400 : 1 + random.below(40)
  const backfill = random.chance(0.2)
  const sparse = random.chance(0.5) ? 0.3 : 0.9
  // Most batches touch a narrow time range, so that duplicates and overlaps with other batches are common.
  const base = backfill ? NOW - BigInt(random.below(40)) * HOUR : NOW - BigInt(random.below(150)) * MINUTE
  const nonFinite = random.chance(0.3)
  const points = Array.from({ length: size }, (_, i) => randomPoint(random, base, i, sparse))
  if (nonFinite)
    for (const { fields } of points) for (const name of ['a', 'f', 'value']) if (name in fields && random.chance(0.2)) fields[name] = unusual(random)
  return { namespace: randomNamespace(random), backfill, nonFinite, points }
}

function randomPoint(random: Random, base: bigint, i: number, sparse: number): TestPoint {
  const mixed = random.chance(0.15)
  const tags: Record<string, string> = { host: random.pick(HOSTS) }
  if (random.chance(0.3)) tags.dc = random.pick(['eu', 'us'])
  // Not among mixed rows: which of a batch's tables is looked at first is not given.
  if (!mixed && random.chance(0.05)) tags[random.pick(['rack', 'zone', 'unit'])] = 'x'
  if (random.chance(0.01)) tags[random.pick(['_time', 'a\0', 'x'.repeat(300)])] = 'refused'
  const names = mixed ? ['value'] : FIELDS.filter((f) => f !== 'value' && random.chance(sparse))
  if (!mixed && random.chance(0.01)) names.push(random.pick(['_series', 'extra1', 'extra2', 'extra3', 'extra4']))
  return {
    measurement: random.pick(MEASUREMENTS),
    tags,
    time: randomTime(random, base, i),
    fields: Object.fromEntries(names.map((name) => [name, randomValue(random, name)])),
    mixed,
  }
}

function randomTime(random: Random, base: bigint, i: number): bigint {
  if (random.chance(0.01)) return random.pick([INT64_MAX, INT64_MIN, -INT64_MAX, NOW + 2n * HOUR, NOW + HOUR, 0n, -1n, INT64_MIN + 2n])
  if (random.chance(0.5)) return base + BigInt(i) * 1_000_000_000n
  return base + BigInt(random.below(30)) * 10_000_000_000n + BigInt(random.below(2))
}

function randomValue(random: Random, name: string): TestValue {
  if (random.chance(0.01)) return random.pick([f64(1), i64(1n), str('another type'), bool(true)])
  switch (name) {
    case 'i':
      return i64(random.pick([INT64_MAX, INT64_MIN, 0n, -1n, 2n ** 53n + 1n, BigInt(random.below(1000))]))
    case 'u':
      return u64(random.pick([2n ** 64n - 1n, 2n ** 63n, 0n, BigInt(random.below(1000))]))
    case 's':
      return str(random.pick(['', 'a', 'ünïcødé 😀', '"quoted" \\', 'line\nbreak', 'x'.repeat(random.below(210))]))
    case 'b':
      return bool(random.chance(0.5))
    case 'd':
      return dec((random.below(2_000_000) / 1000 - 1000).toFixed(random.below(4)))
    case 'wide':
      return dec(`${random.chance(0.5) ? '-' : ''}${Array.from({ length: 1 + random.below(38) }, () => random.below(10)).join('')}`)
    case 'h':
      return hist(Uint8Array.from({ length: random.below(20) }, () => random.below(256)))
    default:
      return f64(randomFloat(random))
  }
}

const unusual = (random: Random): TestValue => bits(random.pick([STALE, NAN, INFINITE, NEGATIVE_INFINITE]))

function randomFloat(random: Random): number {
  if (random.chance(0.01)) return random.pick([Number.NaN, Number.POSITIVE_INFINITY])
  if (random.chance(0.2)) return random.pick([0, 5e-324, Number.MAX_VALUE, -Number.MIN_VALUE, 2 ** 53, 0.1 + 0.2, 1e21])
  return random.chance(0.5) ? random.below(10_000) / 100 : (random.next() - 0.5) * 10 ** random.below(20)
}

function randomNamespace(random: Random): string {
  return random.chance(0.1) ? 'other' : 'default'
}

function randomMatchers(random: Random): Matcher[] {
  return Array.from({ length: random.below(3) }, () => ({
    tag: random.pick(['host', 'dc', 'none']),
    op: random.pick(['=', '!=', '=~', '!~'] as const),
    value: random.pick(['a', '', 'eu', 'a|b', '(a|)b', '.*', '.+', 'a.*', '.*b.*', 'c.d', '[^a]*', '(?i)A.*', '(a|b)+', 'ä']),
  }))
}

/** From one point in time to everything: of all series, or of those that match. */
function randomDelete(random: Random): DeleteRequest {
  const request: DeleteRequest = { namespace: randomNamespace(random), measurement: random.pick(NAMES) }
  if (random.chance(0.8)) request.matchers = randomMatchers(random)
  if (random.chance(0.2)) return request
  const start = NOW - BigInt(random.below(160)) * MINUTE - BigInt(random.below(2))
  const width = random.pick([0n, 1n, 10_000_000_000n, MINUTE, 20n * MINUTE, HOUR, 40n * HOUR])
  if (random.chance(0.9)) request.start = start
  if (random.chance(0.8)) request.end = start + width
  return request
}

function randomScan(random: Random): ScanRequest {
  const request: ScanRequest = { namespace: randomNamespace(random), measurement: random.pick(NAMES), matchers: randomMatchers(random) }
  if (random.chance(0.5)) request.fields = [...FIELDS, 'unknown'].filter(() => random.chance(0.3))
  if (random.chance(0.5)) request.start = NOW - BigInt(random.below(200)) * MINUTE
  if (random.chance(0.5)) request.end = NOW - BigInt(random.below(100)) * MINUTE
  return request
}

function randomSamples(random: Random, { namespace, measurement, matchers, start, end }: ScanRequest): SampleRequest {
  const request: SampleRequest = { namespace, measurement, field: random.pick([...FIELDS, 'unknown']), matchers }
  // Evaluators ask for whole milliseconds.
  if (start !== undefined) request.start = start
  if (end !== undefined) request.end = end
  if (random.chance(0.3)) request.newestOnly = true
  return request
}

interface Manner {
  late: boolean
  /** Without waiting in between, as several connections do. */
  together: boolean
}

async function writeAll(storage: StorageEngine, batches: Batch[], { late, together }: Manner): Promise<Pick<WriteResult, 'written' | 'rejected'>[]> {
  const one = async ({ points, namespace, backfill, nonFinite }: Batch) => {
    const { written, rejected, rejections } = await write(storage, points, { namespace, backfill, nonFinite })
    // Each side keeps the first 16 of those it found itself: a part of the list is only comparable when it is the whole.
    return { written, rejected, codes: rejected <= 16 ? rejections.map((r) => (late ? `${r.position}` : `${r.position} ${r.code}`)) : [] }
  }
  if (together) return Promise.all(batches.map(one))
  const results = []
  for (const batch of batches) results.push(await one(batch))
  return results
}

/** Whether the batches create no field. */
async function fieldsKnown(storage: StorageEngine, batches: Batch[]): Promise<boolean> {
  for (const { namespace, points } of batches) {
    const known = new Map((await storage.measurements(namespace)).map(({ name, fields }) => [name, new Set(fields.map((field) => field.name))]))
    for (const { measurement, fields } of points) if (!Object.keys(fields).every((name) => known.get(measurement)?.has(name))) return false
  }
  return true
}

async function compare(request: ScanRequest, oracle: StorageEngine, engine: StorageEngine): Promise<number> {
  const [expected, found] = [await outcome(oracle, request), await outcome(engine, request)]
  for (let i = 0; i < Math.max(expected.length, found.length); i++) {
    if (expected[i] !== found[i])
      throw new Error(`scan ${text(request)} differs in line ${i} of ${expected.length}:\n  expected ${expected[i]}\n  found    ${found[i]}`)
  }
  return expected.length
}

/** The answer as text, or the code of the refusal. */
async function codeOf(operation: () => Promise<unknown>): Promise<string> {
  try {
    return text((await operation()) ?? 'done')
  } catch (error) {
    const { code } = error as { code?: string }
    if (code === undefined) throw error
    return `refused with ${code}`
  }
}

async function outcome(storage: StorageEngine, request: ScanRequest): Promise<string[]> {
  try {
    return await lines(storage, request)
  } catch (error) {
    const { code } = error as { code?: string }
    if (code === undefined) throw error
    return [`refused with ${code}`]
  }
}

async function schemas(storage: StorageEngine, namespace: string): Promise<MeasurementInfo[]> {
  // Fields that one write creates have no order among them.
  const sorted = (m: MeasurementInfo) => [...m.fields].sort((a, b) => (a.name < b.name ? -1 : 1))
  return (await storage.measurements(namespace)).map((m) => ({ ...m, fields: sorted(m) }))
}

function same(what: string, expected: unknown, found: unknown): void {
  if (text(expected) !== text(found)) throw new Error(`${what} differs:\n  expected ${text(expected)}\n  found    ${text(found)}`)
}

function text(value: unknown): string {
  return JSON.stringify(value, (_, v) => (typeof v === 'bigint' ? `${v}n` : v))
}
