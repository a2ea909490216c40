/** Random operations by seed, on the engine and on the oracle at once; everything the two answer must be the same. */
import type { Matcher, MeasurementInfo, ScanRequest, StorageEngine, WriteResult } from '../../kernel/storage.ts'
import { INT64_MAX, INT64_MIN } from '../common/time.ts'
import { createEngine as createOracle } from '../memory/index.ts'
import { type MakeEngine, testContext } from './context.ts'
import { bool, dec, f64, fill, HOUR, hist, i64, lines, MINUTE, NOW, NOW_MS, str, type TestPoint, type TestValue, u64, write } from './points.ts'

export const randomConfig = { max_series_cardinality: 60, max_fields_per_measurement: 12, max_string_bytes: 200 }

/** mulberry32: small, seedable, the same everywhere. */
export class Random {
  private state: number
  constructor(seed: number) {
    this.state = seed >>> 0
  }
  next(): number {
    this.state = (this.state + 0x6d2b79f5) | 0
    let t = Math.imul(this.state ^ (this.state >>> 15), this.state | 1)
    t = (t + Math.imul(t ^ (t >>> 7), t | 61)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
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
 * @param steps operations, about two thirds of them writes.
 */
export async function randomRun(makeEngine: MakeEngine, seed: number, steps: number): Promise<{ points: number; compared: number }> {
  const random = new Random(seed)
  const now = () => NOW_MS
  const oracle = createOracle(testContext(randomConfig, now))
  await oracle.open()
  const subject = await makeEngine(randomConfig, now)
  let engine = subject.engine
  const totals = { points: 0, compared: 0 }
  const log: string[] = []
  try {
    for (let step = 0; step < steps; step++) {
      const dice = random.next()
      if (dice < 0.6) {
        const batches = Array.from({ length: random.chance(0.2) ? 3 : 1 }, () => randomBatch(random))
        log.push(`write ${batches.map((b) => b.points.length).join('+')}`)
        for (const { points } of batches) totals.points += points.length
        same('write', await writeAll(oracle, batches), await writeAll(engine, batches))
      } else if (dice < 0.68) {
        log.push('flush')
        await engine.flush()
      } else if (dice < 0.72 && subject.reopen !== undefined) {
        log.push('reopen')
        engine = await subject.reopen()
      } else if (dice < 0.75) {
        log.push('recycle')
        const { points, namespace } = randomBatch(random)
        for (const storage of [oracle, engine]) storage.recycle(fill(storage, points, namespace).batch)
      } else {
        const request = randomScan(random)
        log.push(`scan ${text(request)}`)
        totals.compared += await compare(request, oracle, engine)
      }
    }
    log.push('final comparison')
    for (const namespace of NAMESPACES) {
      const names = oracle.measurements(namespace).map((m) => m.name)
      same('measurements', schemas(oracle, namespace), schemas(engine, namespace))
      for (const measurement of names) totals.compared += await compare({ namespace, measurement }, oracle, engine)
    }
    return totals
  } catch (error) {
    throw new Error(`seed ${seed}, step ${log.length} (${log.slice(-6).join(', ')}): ${(error as Error).message}`, { cause: error })
  } finally {
    await subject.dispose()
  }
}

const NAMESPACES = ['default', 'other']
const MEASUREMENTS = ['cpu', 'mem', 'weather station', 'τ']
const FIELDS = ['a', 'b', 'f', 'i', 'u', 's', 'd', 'wide', 'h', 'value']
const HOSTS = ['a', 'b', 'ab', 'c\nd', 'ä', '😀', '']

interface Batch {
  namespace: string
  backfill: boolean
  points: TestPoint[]
}

function randomBatch(random: Random): Batch {
  const size = random.chance(0.1) ? 400 : 1 + random.below(40)
  const backfill = random.chance(0.2)
  const sparse = random.chance(0.5) ? 0.3 : 0.9
  // Most batches touch a narrow time range, so that duplicates and overlaps with other batches are common.
  const base = backfill ? NOW - BigInt(random.below(40)) * HOUR : NOW - BigInt(random.below(150)) * MINUTE
  const points = Array.from({ length: size }, (_, i) => randomPoint(random, base, i, sparse))
  return { namespace: random.chance(0.1) ? 'other' : 'default', backfill, points }
}

function randomPoint(random: Random, base: bigint, i: number, sparse: number): TestPoint {
  const mixed = random.chance(0.15)
  const tags: Record<string, string> = { host: random.pick(HOSTS) }
  if (random.chance(0.3)) tags.dc = random.pick(['eu', 'us'])
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

function randomFloat(random: Random): number {
  if (random.chance(0.01)) return random.pick([Number.NaN, Number.POSITIVE_INFINITY])
  if (random.chance(0.2)) return random.pick([0, 5e-324, Number.MAX_VALUE, -Number.MIN_VALUE, 2 ** 53, 0.1 + 0.2, 1e21])
  return random.chance(0.5) ? random.below(10_000) / 100 : (random.next() - 0.5) * 10 ** random.below(20)
}

function randomScan(random: Random): ScanRequest {
  const matchers: Matcher[] = Array.from({ length: random.below(3) }, () => ({
    tag: random.pick(['host', 'dc', 'none']),
    op: random.pick(['=', '!=', '=~', '!~'] as const),
    value: random.pick(['a', '', 'eu', 'a|b', '.*', '.+', 'c.d', '[^a]*', '(?i)A.*', 'ä']),
  }))
  const request: ScanRequest = { namespace: random.chance(0.1) ? 'other' : 'default', measurement: random.pick([...MEASUREMENTS, 'unknown']), matchers }
  if (random.chance(0.5)) request.fields = [...FIELDS, 'unknown'].filter(() => random.chance(0.3))
  if (random.chance(0.5)) request.start = NOW - BigInt(random.below(200)) * MINUTE
  if (random.chance(0.5)) request.end = NOW - BigInt(random.below(100)) * MINUTE
  return request
}

/** Writes without waiting in between, as several connections do. */
function writeAll(storage: StorageEngine, batches: Batch[]): Promise<Pick<WriteResult, 'written' | 'rejected'>[]> {
  return Promise.all(
    batches.map(async ({ points, namespace, backfill }) => {
      const { written, rejected, rejections } = await write(storage, points, { namespace, backfill })
      // Each side keeps the first 16 of those it found itself: a part of the list is only comparable when it is the whole.
      return { written, rejected, codes: rejected <= 16 ? rejections.map((r) => `${r.position} ${r.code}`) : [] }
    }),
  )
}

async function compare(request: ScanRequest, oracle: StorageEngine, engine: StorageEngine): Promise<number> {
  const [expected, found] = [await outcome(oracle, request), await outcome(engine, request)]
  for (let i = 0; i < Math.max(expected.length, found.length); i++) {
    if (expected[i] !== found[i])
      throw new Error(`scan ${text(request)} differs in line ${i} of ${expected.length}:\n  expected ${expected[i]}\n  found    ${found[i]}`)
  }
  return expected.length
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

function schemas(storage: StorageEngine, namespace: string): MeasurementInfo[] {
  // Fields that one write creates have no order among them.
  const sorted = (m: MeasurementInfo) => [...m.fields].sort((a, b) => (a.name < b.name ? -1 : 1))
  return storage.measurements(namespace).map((m) => ({ ...m, fields: sorted(m) }))
}

function same(what: string, expected: unknown, found: unknown): void {
  if (text(expected) !== text(found)) throw new Error(`${what} differs:\n  expected ${text(expected)}\n  found    ${text(found)}`)
}

function text(value: unknown): string {
  return JSON.stringify(value, (_, v) => (typeof v === 'bigint' ? `${v}n` : v))
}
