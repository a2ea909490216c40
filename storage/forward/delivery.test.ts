/** A delivery that is held for its namespace, at any point of what an upstream may answer, goes on from where it was. Seeds are printed; SVC_SEED repeats one. */

import { type Random, seeded } from 'svcdb/lib/random'
import { DeadLetters } from 'svcdb/lib/source'
import { MetricsRegistry, temporaryFolder } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { pointAt } from './dead-letter.ts'
import { Delivery, type DeliveryOptions } from './delivery.ts'
import { CallError } from './grpc-client.ts'
import { Link } from './link.ts'
import { ForwardMetrics } from './metrics.ts'
import { countOf, type Rows, rowsOf } from './points.ts'
import type { QueueRecord } from './record.ts'
import { SendTimes } from './send-times.ts'
import { sectionOf } from './testing.ts'
import type { Outcome, RefusedRow, Upstream } from './upstream.ts'

type Kind = 'good' | 'bad' | 'old' | 'breaking'

/** A record of rows whose times are their numbers. */
function record(count: number): QueueRecord {
  const time = new Int32Array(count * 2)
  for (let row = 0; row < count; row++) time[row * 2] = row
  const head = { sequence: 0, before: 0, points: count, takenMs: 0, namespace: 'red', backfill: false, nonFinite: false }
  return {
    ...head,
    keys: [Uint8Array.of(10, 1, 109)],
    tables: [{ rows: count, series: new Int32Array(count), time, names: [], columns: [] }],
    heap: new Uint8Array(),
  }
}

const numbersOf = (rows: Rows): number[] => Array.from({ length: countOf(rows) }, (_, i) => Number(pointAt(rows, i).timestamp))

function upstreamOf(kinds: Kind[], refuses: () => boolean) {
  /** How often each row was written, and how those that were so late. */
  const written: number[] = kinds.map(() => 0)
  const lateOnly: boolean[] = kinds.map(() => true)
  const keys = new Map<string, string>()
  const problems: string[] = []
  const upstream = {
    name: 'one',
    connections: 0,
    bytes: 0,
    up: true,
    async write(rows: Rows, _: string, { backfill, dedupKey }: { backfill: boolean; dedupKey: string }): Promise<Outcome> {
      const numbers = numbersOf(rows)
      const known = keys.get(dedupKey)
      if (known !== undefined && known !== String(numbers)) problems.push(`key ${dedupKey} is of ${known} and of ${numbers}`)
      keys.set(dedupKey, String(numbers))
      if (refuses()) throw new CallError('for the test', { status: 8, code: 'RATE_LIMITED' })
      if (numbers.some((n) => kinds[n] === 'breaking')) throw new CallError('fails', { status: 13, code: 'INTERNAL_ERROR' })
      const refused: RefusedRow[] = []
      for (const [position, n] of numbers.entries()) {
        if (kinds[n] === 'bad') refused.push({ position, code: 'SCHEMA_ERROR', message: 'bad' })
        else if (kinds[n] === 'old' && !backfill) refused.push({ position, code: 'PARTIAL_WRITE', message: 'old' })
        else {
          written[n]++
          lateOnly[n] &&= backfill
        }
      }
      return { written: numbers.length - refused.length, rejected: refused.length, refused: refused.slice(0, 16), bytes: 1 }
    },
  }
  return { upstream: upstream as unknown as Upstream, written, lateOnly, problems }
}

function deliveryTo(t: Test, upstream: Upstream, batchPoints = 50) {
  const { forward } = sectionOf({ forward: { batch_points: batchPoints, upstream: [{ name: 'one', url: 'http://127.0.0.1:9' }] } }) as {
    forward: DeliveryOptions['config']
  }
  const metrics = new ForwardMetrics(new MetricsRegistry().child('storage'), {
    bytes: () => 0,
    maxBytes: 0,
    oldestMs: () => undefined,
    waiting: () => [],
    up: () => [],
    now: () => 0,
  })
  const aside: number[] = []
  const letters = new DeadLetters({ folder: temporaryFolder(t), name: 'letters', maxBytes: 1 << 20, dropped() {} })
  letters.add = async ({ body }) => void aside.push(Number(JSON.parse(Buffer.from(body).toString()).timestamp))
  const log = { debug() {}, info() {}, warn() {}, error() {} }
  const options: DeliveryOptions = {
    upstreams: [upstream],
    config: forward,
    times: new SendTimes([], 'UTC'),
    letters,
    metrics,
    log,
    tracing: undefined,
    now: () => 0,
    monotonic: () => 0,
    pause: async () => {},
    conflict() {},
  }
  return { delivery: new Delivery(options, new Link(), new AbortController().signal), aside, letters }
}

async function lifeOf(t: Test, random: Random): Promise<string[]> {
  const count = 1 + Math.floor(random() * 200)
  const odds: [Kind, number][] = [
    ['bad', random() * 0.2],
    ['old', random() * 0.3],
    ['breaking', random() < 0.5 ? 0.02 : 0],
  ]
  const kinds = Array.from({ length: count }, (): Kind => odds.find(([, odd]) => random() < odd)?.[0] ?? 'good')
  // Whoever is held while the breaking rows are looked for begins with that anew.
  const refusing = random() * (kinds.includes('breaking') ? 0.03 : 0.5)
  const { upstream, written, lateOnly, problems } = upstreamOf(kinds, () => random() < refusing)
  const { delivery, aside } = deliveryTo(t, upstream)
  const batch = { rows: rowsOf([record(count)]), namespace: 'red', backfill: false, key: 'k' }
  let from = 0
  for (let tries = 0; tries < 10_000; tries++) {
    const held = await delivery.send(batch, from, random() < 0.3)
    if (held === undefined) break
    if (held.settled < from || held.settled >= count) problems.push(`${held.settled} of ${count} are settled after ${from}`)
    from = held.settled
    if (tries === 9999) problems.push('it does not end')
  }
  for (const [n, kind] of kinds.entries()) {
    const [wrote, asides] = [written[n], aside.filter((one) => one === n).length]
    if (kind === 'good' || kind === 'old' ? wrote === 0 || asides > 0 : wrote > 0 || asides === 0)
      problems.push(`row ${n} (${kind}): written ${wrote}, aside ${asides}`)
    if (kind === 'old' && !lateOnly[n]) problems.push(`row ${n} was too old, and written live`)
  }
  return problems
}

t.test('each row is written or set aside, whenever the namespace is refused', async (t) => {
  const first = Number(process.env.SVC_SEED ?? Math.floor(Math.random() * 2 ** 31))
  const seeds = Number(process.env.SVC_SEEDS ?? 60)
  t.comment(`seeds from ${first} on`)
  for (let seed = first; seed < first + seeds; seed++) {
    const problems = await lifeOf(t, seeded(seed))
    if (problems.length > 0) t.fail(`seed ${seed}: ${problems.slice(0, 3).join('; ')}`)
  }
})

t.test('what was settled is not sent again', async (t) => {
  let calls = 0
  const { upstream, written } = upstreamOf(Array<Kind>(200).fill('good'), () => ++calls === 3)
  const { delivery } = deliveryTo(t, upstream)
  const batch = { rows: rowsOf([record(200)]), namespace: 'red', backfill: false, key: 'k' }
  const held = await delivery.send(batch)
  t.match(held, { settled: 100, error: { code: 'RATE_LIMITED' } })
  t.equal(await delivery.send(batch, held?.settled), undefined)
  t.ok(written.every((times) => times === 1))
})

t.test('what is given up is set aside with the reason', async (t) => {
  let calls = 0
  const { upstream } = upstreamOf(Array<Kind>(600).fill('good'), () => ++calls > 2)
  const { delivery, aside } = deliveryTo(t, upstream)
  const batch = { rows: rowsOf([record(600)]), namespace: 'red', backfill: false, key: 'k' }
  const held = await delivery.send(batch)
  if (held !== undefined) await delivery.giveUp(batch, held)
  t.same(
    aside.sort((a, b) => a - b),
    Array.from({ length: 500 }, (_, i) => 100 + i),
  )
})

t.test('of points that are refused together those that are dead letters are none again when the others are tried', async (t) => {
  const { upstream } = upstreamOf(Array<Kind>(10).fill('bad'), () => false)
  const { delivery, aside, letters } = deliveryTo(t, upstream)
  const { add } = letters
  let calls = 0
  letters.add = async (letter) => {
    if (calls++ % 3 === 1) throw Object.assign(new Error('no space'), { code: 'ENOSPC' })
    await add(letter)
  }
  await delivery.send({ rows: rowsOf([record(10)]), namespace: 'red', backfill: false, key: 'k' })
  t.same(
    aside.sort((a, b) => a - b),
    Array.from({ length: 10 }, (_, i) => i),
  )
})

t.test('an upstream may list more rows than a call takes arguments', async (t) => {
  const count = 200_000
  const { upstream } = upstreamOf([], () => false)
  const late: number[] = []
  upstream.write = async (rows, _, { backfill }) => {
    const rejected = backfill ? 0 : countOf(rows)
    if (backfill) late.push(countOf(rows))
    const refused = Array.from({ length: rejected }, (_, position): RefusedRow => ({ position, code: 'PARTIAL_WRITE', message: 'old' }))
    return { written: countOf(rows) - rejected, rejected, refused, bytes: 1 }
  }
  const { delivery } = deliveryTo(t, upstream, count)
  const before = process.cpuUsage()
  t.equal(await delivery.send({ rows: rowsOf([record(count)]), namespace: 'red', backfill: false, key: 'k' }), undefined)
  const { user } = process.cpuUsage(before)
  t.equal(
    late.reduce((sum, rows) => sum + rows, 0),
    count,
  )
  t.ok(user < 10e6, `${user / 1e6} s`)
})
