/** What buckets of time zones cost the main thread: a lookup takes some 50 µs, so there are few, whatever is asked for and whatever is written. */
import type { Change, ChangeCursor, Storage } from 'svcdb'
import { bucketOf, Zone } from 'svcdb/lib/time-buckets'
import { boot } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { bucketsBetween, FIRST_TIME, floorBucket, LAST_TIME } from './boundaries.ts'
import { bucketsOf, definitionOf } from './definition.ts'
import { Follower } from './follower.ts'
import type { RollupMetrics } from './metrics.ts'
import type { Registry } from './registry.ts'
import { Rollup } from './rollup.ts'

const DAY = 86_400_000_000_000n
const body = { name: 'r', source_measurement: 'a', target_measurement: 'b', every: '1d', aggregations: ['avg'] }
const rollupIn = (timezone: string, every = '1d') => new Rollup(definitionOf({ ...body, every, timezone }, '', 0n), 64)

/** Counts how often a wall clock is made an instant, in any zone. */
function lookups(t: Test): () => number {
  const results = t.capture(Zone.prototype, 'toInstant', Zone.prototype.toInstant)
  return () => results().length
}

t.test('buckets are counted as they lie, without being looked up', async (t) => {
  const wrong: string[] = []
  for (const [every, timezone] of [
    ['1d', 'Europe/Zurich'],
    ['3d', 'America/Sao_Paulo'],
    ['1w', 'Pacific/Apia'],
    ['1mo', 'Asia/Kolkata'],
    ['5mo', 'Africa/Casablanca'],
    ['1y', 'America/New_York'],
    ['7h', ''],
  ]) {
    const buckets = bucketsOf({ every, timezone, origin: null, created: '0' })
    for (const first of [-3_000_000_000n, 0n, 1_711_000_000n]) {
      const start = floorBucket(first * 1_000_000_000n, buckets)
      let at = start
      for (let count = 0n; count < 300n; count++) {
        if (bucketsBetween(start, at, buckets) !== count) wrong.push(`${every} ${timezone}: ${count} from ${start} to ${at}`)
        at = bucketOf(at, buckets)[1]
      }
    }
  }
  t.same(wrong, [])
})

t.test('a refresh of all times is refused at once', async (t) => {
  const node = await boot({ plugins: ['line_protocol', 'rollups'] })
  t.teardown(() => node.stop())
  t.equal((await node.inject({ method: 'POST', url: '/api/v1/rollups', payload: { ...body, timezone: 'Europe/Zurich' } })).statusCode, 201)
  const count = lookups(t)
  const answer = await node.inject({ method: 'POST', url: `/api/v1/rollups/r/refresh?start=${FIRST_TIME}&end=${LAST_TIME}` })
  t.match([answer.statusCode, answer.json().error], [400, /more than 100000 buckets/])
  const found = count()
  t.ok(found < 20, `${found} lookups`)
})

t.test('rows of many days are marked for many time zones with few lookups, and all of them are', async (t) => {
  const rollups = Intl.supportedValuesOf('timeZone')
    .slice(0, 64)
    .map((zone) => rollupIn(zone))
  for (const rollup of rollups) rollup.empty(floorBucket(20_000n * DAY, rollup.buckets))
  const days = Array.from({ length: 300 }, (_, i) => BigInt(i * 7 + 1000))
  const times = new Int32Array(BigInt64Array.from(days, (day) => day * DAY).buffer)
  const change = { kind: 'rows', namespace: '', measurement: 'a', times, rows: days.length } as unknown as Change
  const count = lookups(t)
  await seen(rollups, change)
  const found = count()
  t.ok(found < 2000, `${found} lookups`)
  const lacking = rollups.filter(({ dirty }) => !days.every((day) => dirty.some(([start, end]) => start <= day * DAY && day * DAY < end)))
  t.same(lacking, [])
})

/** Has a follower see one change. */
async function seen(rollups: readonly Rollup[], change: Change): Promise<void> {
  const registry = { size: rollups.length, position: 'p', of: () => rollups, all: () => rollups.values(), above: () => [] } as unknown as Registry
  const changes = [change][Symbol.iterator]()
  const cursor = { next: async () => changes.next(), position: async () => 'p', close() {}, select() {}, behind: 0 } as unknown as ChangeCursor
  const storage = { changes: () => cursor } as unknown as Storage
  const failed = (error: Error): never => {
    throw error
  }
  const follower = new Follower({ storage: () => storage, registry, metrics: { invalidations: { inc() {} } } as unknown as RollupMetrics, marked() {}, failed })
  follower.follow()
  await follower.position()
  await follower.close()
}
