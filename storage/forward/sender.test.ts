/** What the edge makes of an upstream that refuses, falls silent, answers twice and goes away: nothing is lost, nothing holds up the rest. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { definePlugin, type Plugin } from 'svcdb'
import { type ErrorCode, SvcError } from 'svcdb/lib/errors'
import { seeded } from 'svcdb/lib/random'
import { temporaryFolder } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { f64, HOUR, i64, lines, NOW, str, type TestPoint, write } from '../conformance/points.ts'
import { realEnvironment } from './engine.ts'
import { CallError } from './grpc-client.ts'
import type { Queue } from './queue.ts'
import { edgeOf, upstream } from './testing.ts'
import { verdictOf } from './upstream.ts'

const OPEN = { server: { allow_open: true } }
const point = (host: string, n: number, fields: TestPoint['fields'] = { v: i64(BigInt(n)) }): TestPoint => ({
  measurement: 'cpu',
  tags: { host },
  time: NOW + BigInt(n),
  fields,
})

/** Refuses writes as it is told to: before anything is stored, or after. */
function moody(refusal: () => ErrorCode | undefined): Plugin {
  return definePlugin({
    id: 'moody',
    summary: 'Refuses',
    stability: 'experimental',
    capabilities: ['points'],
    setup(svc) {
      svc.ingest.admit(() => {
        const code = refusal()
        if (code !== undefined) throw new SvcError(code, 'for the test', { headers: { 'retry-after': '0' } })
      })
    },
  })
}

/** @param impatient does not pause for longer than a millisecond, and tells for how long it would have. */
async function pair(t: Test, forward: Record<string, unknown> = {}, options: Parameters<typeof upstream>[1] = {}, impatient = false) {
  const { node, url } = await upstream(t, { ...options, config: { ...OPEN, ...options.config } })
  const dir = temporaryFolder(t)
  const warned: string[] = []
  const log = {
    debug() {},
    info() {},
    warn: (o: object, m?: string) => void warned.push(`${m} ${JSON.stringify(o)}`),
    error: (o: object, m?: string) => void warned.push(`${m} ${JSON.stringify(o)}`),
  }
  const pauses: number[] = []
  const environment = {
    ...realEnvironment,
    pause: async (ms: number, signal: AbortSignal) => {
      pauses.push(ms)
      await realEnvironment.pause(impatient ? Math.min(ms, 1) : ms, signal)
    },
  }
  const start = async (more: Record<string, unknown> = {}) => {
    const edge = edgeOf({ data_dir: dir, forward: { upstream: [{ name: 'one', url }], ...forward, ...more } }, { log, environment })
    await edge.open()
    t.teardown(() => edge.close())
    return edge
  }
  const letters = (): { code: string; error: string; point: { measurement: string; timestamp: string; tags: object; fields: object } }[] => {
    try {
      const text = readFileSync(join(dir, 'dead-letters', 'forward-upstream.jsonl'), 'utf8').trim()
      return text.split('\n').map((line) => {
        const { body, ...rest } = JSON.parse(line)
        return { ...rest, point: JSON.parse(Buffer.from(body, 'base64').toString()) }
      })
    } catch {
      return []
    }
  }
  return { node, url, dir, start, letters, warned, pauses, stored: () => lines(node.storage, { namespace: '', measurement: 'cpu' }).catch(() => []) }
}

t.test('rows that the upstream refuses are set aside with the reason, and the others are there', async (t) => {
  const { node, start, letters, stored } = await pair(t)
  await write(node.storage, [{ measurement: 'cpu', tags: { host: 'x' }, time: NOW - HOUR, fields: { bad: str('text'), v: i64(0n) } }], { namespace: '' })
  const edge = await start()
  const points = Array.from({ length: 300 }, (_, n) => point(`h${n % 5}`, n, n % 3 === 0 ? { bad: f64(n) } : { v: i64(BigInt(n)) }))
  t.match(await write(edge, points, { namespace: '' }), { written: 300, rejected: 0 }, 'the edge cannot know')
  await edge.drained()
  t.equal((await stored()).length, 201)
  const aside = letters()
  t.equal(aside.length, 100, 'each once')
  t.same(aside.map(({ point }) => point.timestamp).sort(), points.flatMap(({ time, fields }) => ('bad' in fields ? [String(time)] : [])).sort())
  t.ok(aside.every(({ code, error }) => code === 'SCHEMA_ERROR' && /field "bad" .* is of type string, the point has float64/.test(error)))
  t.match(aside[0].point, { measurement: 'cpu', tags: { host: 'h0' }, fields: { bad: 0 } })
  t.match(
    await write(edge, [point('h', 1000, { bad: str('right') })], { namespace: '' }),
    { written: 1 },
    'the edge holds to no type that the upstream has refused',
  )
  await edge.drained()
  t.equal((await stored()).length, 202)
})

t.test('no more points are read than go in one request, however little of the queue they take', async (t) => {
  let refuses = true
  const { start, stored } = await pair(t, { batch_points: 25, max_pause_secs: 1 }, { plugins: [moody(() => (refuses ? 'OVERLOADED' : undefined))] }, true)
  const edge = await start()
  const { queue } = (edge as unknown as { running: { queue: Queue } }).running
  const read = queue.read.bind(queue)
  const atOnce: number[] = []
  queue.read = async (...given) => {
    const found = await read(...given)
    atOnce.push(found.records.reduce((sum, { record }) => sum + record.points, 0))
    return found
  }
  const sizes = [10, 10, 10, 40, 1, 24, 25, 2, 30]
  let n = 0
  for (const size of sizes)
    await write(
      edge,
      Array.from({ length: size }, () => point('a', n++)),
      { namespace: '' },
    )
  refuses = false
  await edge.drained()
  t.equal((await stored()).length, n)
  t.ok(
    atOnce.every((points) => points <= 25 || points === 30 || points === 40),
    `read ${atOnce}`,
  )
})

t.test('a request that is too large is divided', async (t) => {
  const { start, stored, letters } = await pair(t, {}, { config: { server: { allow_open: true, max_write_batch_size: 70 } } })
  const edge = await start()
  await write(
    edge,
    Array.from({ length: 1000 }, (_, n) => point(`h${n % 7}`, n)),
    { namespace: '' },
  )
  await edge.drained()
  t.equal((await stored()).length, 1000)
  t.same(letters(), [])
})

t.test('points that were taken in time are stored, however long they have waited', async (t) => {
  const { node, start, letters, stored } = await pair(t)
  await write(node.storage, [{ measurement: 'cpu', tags: { host: 'x' }, time: NOW, fields: { v: i64(0n) } }], { namespace: '' })
  const edge = await start()
  const old = Array.from({ length: 20 }, (_, n) => ({ ...point('a', n), time: n % 2 === 0 ? NOW + BigInt(n) + 1n : NOW - 100n * HOUR + BigInt(n) }))
  t.match(await write(edge, old, { namespace: '' }), { written: 20 }, 'the first write into a namespace may hold any history')
  await edge.drained()
  t.equal((await stored()).length, 21)
  t.same(letters(), [])
})

t.test('each refusal that time or an operator may mend is waited for', async (t) => {
  const codes: ErrorCode[] = [
    'RATE_LIMITED',
    'BACKPRESSURE',
    'STORAGE_FULL',
    'OVERLOADED',
    'UNAUTHORIZED',
    'FORBIDDEN',
    'WRITE_TIMEOUT',
    'INTERNAL_ERROR',
    'DATABASE_CLOSED',
    'NOT_FOUND',
    'PRECONDITION_FAILED',
    'ENCRYPTION_KEY_UNAVAILABLE',
    'IO_ERROR',
    'DATABASE_ERROR',
    ...Array<ErrorCode>(20).fill('NOT_FOUND'),
  ]
  const coming = [...codes]
  const { start, stored, letters, warned } = await pair(t, {}, { plugins: [moody(() => coming.shift())] }, true)
  const edge = await start()
  await write(edge, [point('a', 1)], { namespace: '' })
  await edge.drained()
  t.equal((await stored()).length, 1)
  t.same([letters(), coming], [[], []])
  for (const code of codes)
    t.ok(
      warned.some((text) => text.includes(code)),
      code,
    )
  t.ok(warned.some((text) => /configuration has to be mended.*FORBIDDEN/.test(text)))
})

/** Fails over points by their number. */
function poisoned(refusal: (n: number) => ErrorCode | undefined): Plugin {
  return definePlugin({
    id: 'poisoned',
    summary: 'Fails over some points',
    stability: 'experimental',
    capabilities: ['points'],
    setup(svc) {
      svc.ingest.admit((batch) => {
        const base = Number(BigInt.asIntN(32, NOW))
        for (const { rows, time } of batch.tables)
          for (let row = 0; row < rows; row++) {
            const code = refusal((time[row * 2] - base) | 0)
            if (code !== undefined) throw new SvcError(code, 'this one')
          }
      })
    },
  })
}
const numbered = (count: number) => Array.from({ length: count }, (_, n) => point('a', n))

t.test('a request that the upstream refuses whole is divided, and the point is set aside', async (t) => {
  const { start, stored, letters } = await pair(t, {}, { plugins: [poisoned((n) => (n === 2 ? 'BAD_REQUEST' : undefined))] })
  const edge = await start()
  await write(edge, numbered(5), { namespace: '' })
  await edge.drained()
  t.equal((await stored()).length, 4)
  t.match(letters(), [{ code: 'BAD_REQUEST', error: /this one/, point: { timestamp: String(NOW + 2n) } }])
})

t.test('what the upstream fails over again and again is found and set aside: the tries are those of the request, not of each point', async (t) => {
  const bad = (n: number) => n === 7 || (n >= 500 && n < 510) || n === 999
  const { start, stored, letters, pauses } = await pair(
    t,
    { max_pause_secs: 60 },
    { plugins: [poisoned((n) => (bad(n) ? 'INTERNAL_ERROR' : undefined))] },
    true,
  )
  const edge = await start()
  await write(edge, numbered(1000), { namespace: '' })
  await edge.drained()
  t.equal((await stored()).length, 988)
  const aside = letters()
  t.same(
    aside.map(({ point }) => Number(BigInt(point.timestamp) - NOW)).sort((a, b) => a - b),
    [7, ...Array.from({ length: 10 }, (_, i) => 500 + i), 999],
  )
  t.ok(
    aside.every(({ code }) => code === 'INTERNAL_ERROR'),
    'with the reason',
  )
  const waited = pauses.reduce((sum, ms) => sum + ms, 0)
  t.ok(waited < 120_000, `${waited} ms of pauses`)
})

t.test('an upstream that fails over everything is waited for: it is at fault, not the points', async (t) => {
  let failing = 0
  let broken = true
  const { start, stored, letters, pauses } = await pair(
    t,
    { max_pause_secs: 60 },
    { plugins: [moody(() => (broken && ++failing ? 'INTERNAL_ERROR' : undefined))] },
    true,
  )
  const edge = await start()
  await write(edge, numbered(300), { namespace: '' })
  while (failing < 100) await new Promise((resolve) => setTimeout(resolve, 1))
  t.same(letters(), [])
  t.ok(pauses.length > 10)
  broken = false
  await edge.drained()
  t.same([(await stored()).length, letters()], [300, []])
})

t.test('one that never takes the points holds up what is behind them for a bounded time', async (t) => {
  const { start, stored, letters, pauses } = await pair(
    t,
    { max_pause_secs: 60, batch_points: 40 },
    { plugins: [poisoned((n) => (n < 40 ? 'INTERNAL_ERROR' : undefined))] },
    true,
  )
  const edge = await start()
  await write(edge, numbered(40), { namespace: '' })
  await write(
    edge,
    Array.from({ length: 40 }, (_, n) => point('b', 40 + n)),
    { namespace: '' },
  )
  await edge.drained()
  t.same([(await stored()).length, letters().length], [40, 40])
  const waited = pauses.reduce((sum, ms) => sum + ms, 0)
  t.ok(waited > 240_000 && waited < 7_200_000, `${waited} ms of pauses`)
})

t.test('what was sent and not answered is not written twice', async (t) => {
  let writes = 0
  const { node, start } = await pair(
    t,
    { timeout_secs: 1 },
    {
      plugins: [
        definePlugin({
          id: 'late',
          summary: 'Takes its time with the first write',
          stability: 'experimental',
          capabilities: ['points'],
          setup(svc) {
            svc.ingest.admit(async () => {
              if (writes++ === 0) await new Promise((resolve) => setTimeout(resolve, 2500))
            })
          },
        }),
      ],
    },
  )
  const edge = await start()
  const told = node.storage.changes({ namespace: '' })
  await write(edge, [point('a', 1)], { namespace: '' })
  await edge.drained()
  await write(node.storage, [point('end', 2)], { namespace: '' })
  const seen: unknown[] = []
  for await (const change of told) {
    if (change.kind !== 'rows') continue
    const { host } = change.tagsOf(change.series[0])
    if (host === 'end') break
    seen.push(host)
  }
  t.same(seen, ['a'], 'once')
})

t.test('namespaces travel with their points, and a backfill stays one', async (t) => {
  const { node, start } = await pair(t, {}, { config: { server: { multi_tenancy: true, allow_open: true } } })
  const edge = await start()
  const told = node.storage.changes()
  for (const [i, namespace] of ['red', 'blue', 'red'].entries()) await write(edge, [point(namespace, i)], { namespace, backfill: i === 2 })
  await edge.drained()
  t.same(
    [await lines(node.storage, { namespace: 'red', measurement: 'cpu' }), await lines(node.storage, { namespace: 'blue', measurement: 'cpu' })].map(
      (all) => all.length,
    ),
    [2, 1],
  )
  const seen: unknown[] = []
  for await (const change of told) if (change.kind === 'rows' && seen.push([change.namespace, change.backfill]) === 3) break
  t.same(seen, [
    ['red', false],
    ['blue', false],
    ['red', true],
  ])
})

t.test('copies go to each upstream, which are not held up by one another', async (t) => {
  const one = await pair(t)
  const two = await pair(t)
  const dead = 'http://127.0.0.1:9'
  const edge = await one.start({
    mode: 'copy',
    upstream: [
      { name: 'one', url: one.url },
      { name: 'dead', url: dead },
      { name: 'two', url: two.url },
    ],
  })
  await write(
    edge,
    Array.from({ length: 50 }, (_, n) => point('a', n)),
    { namespace: '' },
  )
  while ((await one.stored()).length < 50 || (await two.stored()).length < 50) await new Promise((resolve) => setTimeout(resolve, 5))
  t.equal((await two.stored()).length, 50)
  await edge.close()
  const third = await pair(t)
  const again = await one.start({
    mode: 'copy',
    upstream: [
      { name: 'one', url: one.url },
      { name: 'dead', url: third.url },
      { name: 'two', url: two.url },
    ],
  })
  await again.drained()
  t.equal((await third.stored()).length, 50, 'each has a place of its own, over restarts')
})

t.test('an upstream that is away is replaced by the next', async (t) => {
  const { start, stored, url, warned } = await pair(t)
  const edge = await start({
    failover_after_secs: 0,
    upstream: [
      { name: 'away', url: 'http://127.0.0.1:9' },
      { name: 'there', url },
    ],
  })
  await write(edge, [point('a', 1)], { namespace: '' })
  await edge.drained()
  t.equal((await stored()).length, 1)
  t.ok(warned.some((text) => text.includes('points go to another upstream')))
})

t.test('random moods: each point arrives once and as it was, or is set aside for its own fault', async (t) => {
  const seed = Number(process.env.SVC_SEED ?? Math.floor(Math.random() * 2 ** 31))
  t.comment(`SVC_SEED=${seed}`)
  const random = seeded(seed)
  const codes: (ErrorCode | undefined)[] = ['RATE_LIMITED', 'BACKPRESSURE', 'STORAGE_FULL', 'FORBIDDEN', 'WRITE_TIMEOUT', 'INTERNAL_ERROR', 'PAYLOAD_TOO_LARGE']
  let moods = 15
  const mood = () => (moods > 0 && random() < 0.3 && moods-- > 0 ? codes[Math.floor(random() * codes.length)] : undefined)
  const { node, start, letters } = await pair(
    t,
    { batch_points: 100 },
    { plugins: [moody(mood)], config: { server: { allow_open: true, max_write_batch_size: 60 } } },
  )
  await write(node.storage, [{ measurement: 'cpu', time: NOW - HOUR, fields: { bad: str('') } }], { namespace: '' })
  const expected = new Set<string>()
  const faulty = new Set<string>()
  let n = 0
  for (let life = 0; life < 4; life++) {
    const edge = await start()
    const writes: Promise<unknown>[] = []
    for (let i = 0; i < 20; i++) {
      const points = Array.from({ length: 1 + Math.floor(random() * 40) }, () => {
        const bad = random() < 0.05
        const one = point(`h${Math.floor(random() * 4)}`, ++n, bad ? { bad: i64(BigInt(n)) } : { v: f64(n) })
        if (bad) faulty.add(String(one.time))
        else expected.add(`${JSON.stringify(one.tags)} ${one.time} v=float64:${n}`)
        return one
      })
      const result = write(edge, points, { namespace: '' })
      writes.push(
        result.then(({ rejections }) => {
          // The edge may know by now what the upstream has said.
          for (const { position } of rejections) faulty.delete(String(points[position].time))
        }),
      )
      if (random() < 0.3) await new Promise((resolve) => setTimeout(resolve, random() * 20))
    }
    await Promise.all(writes)
    if (life === 3) await edge.drained()
    await edge.close()
  }
  const arrived = (await lines(node.storage, { namespace: '', measurement: 'cpu' })).filter((line) => !line.includes('bad='))
  t.same(new Set(arrived), expected)
  t.same(new Set(letters().map(({ point }) => point.timestamp)), faulty)
})

t.test('what an answer means', async (t) => {
  const verdict = (status: number | undefined, code?: ErrorCode) =>
    verdictOf(new CallError('', { ...(status === undefined ? {} : { status }), ...(code === undefined ? {} : { code }) }))
  const cases: [number | undefined, ErrorCode | undefined, string][] = [
    [undefined, undefined, 'wait'],
    [14, undefined, 'wait'],
    [4, undefined, 'wait'],
    [8, undefined, 'wait'],
    [8, 'RATE_LIMITED', 'wait'],
    [8, 'STORAGE_FULL', 'wait'],
    [8, 'PAYLOAD_TOO_LARGE', 'divide'],
    [8, 'CARDINALITY_EXCEEDED', 'divide'],
    [3, 'BAD_REQUEST', 'divide'],
    [3, 'SCHEMA_ERROR', 'divide'],
    [3, 'METHOD_NOT_ALLOWED', 'mend'],
    [16, 'UNAUTHORIZED', 'mend'],
    [7, 'FORBIDDEN', 'mend'],
    [12, undefined, 'mend'],
    [5, 'NOT_FOUND', 'mend'],
    [9, 'PRECONDITION_FAILED', 'mend'],
    [9, 'ENCRYPTION_KEY_UNAVAILABLE', 'mend'],
    [13, 'IO_ERROR', 'wait'],
    [13, 'DATABASE_ERROR', 'wait'],
    [13, 'INTERNAL_ERROR', 'broken'],
    [2, undefined, 'broken'],
  ]
  for (const [status, code, expected] of cases) t.equal(verdict(status, code), expected, `${status} ${code}`)
})
