/** A disk that has no room for a while: what was refused leaves nothing behind, and what waits is sent. */

import { existsSync, mkdirSync, rmdirSync } from 'node:fs'
import { join } from 'node:path'
import { temporaryFolder } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { f64, HOUR, i64, NOW, type TestPoint, write } from '../conformance/points.ts'
import { realEnvironment } from './engine.ts'
import { edgeOf, upstream } from './testing.ts'

const DAY = 24n * HOUR

async function edgeOn(t: Test, more: object = {}) {
  const disk = { full: false }
  const real = realEnvironment.fs
  const fs = {
    ...real,
    write: (...given: Parameters<typeof real.write>): void =>
      disk.full ? void setImmediate(() => given[5](Object.assign(new Error('no space'), { code: 'ENOSPC' }), 0)) : real.write(...given),
  }
  const environment = { ...realEnvironment, fs }
  const edge = edgeOf({ data_dir: temporaryFolder(t), forward: { upstream: [{ name: 'one', url: 'http://127.0.0.1:9' }], ...more } }, { environment })
  await edge.open()
  t.teardown(() => edge.close())
  return { disk, edge }
}

t.test('a history that found no room is taken when there is some: the window has not moved', async (t) => {
  const { disk, edge } = await edgeOn(t)
  const history = Array.from({ length: 100 }, (_, n): TestPoint => ({ measurement: 'cpu', tags: {}, time: NOW - BigInt(n) * DAY, fields: { v: f64(n) } }))
  disk.full = true
  const tries = [history.slice(50), history].map((points) => write(edge, points, { namespace: '' }))
  for (const { status, reason } of (await Promise.allSettled(tries)) as PromiseRejectedResult[]) t.match([status, reason], ['rejected', { code: 'ENOSPC' }])
  disk.full = false
  t.match(await write(edge, history, { namespace: '' }), { written: 100, rejected: 0 })
  t.match(await write(edge, history, { namespace: '' }), { written: 3, rejected: 97 }, 'now it has')
})

t.test('what found no room counts for nothing against max_size', async (t) => {
  const { disk, edge } = await edgeOn(t, { max_size: 1024 * 1024, file_size: 64 * 1024 })
  const points = Array.from({ length: 10_000 }, (_, n): TestPoint => ({ measurement: 'cpu', tags: {}, time: NOW + BigInt(n), fields: { v: f64(n) } }))
  disk.full = true
  for (let n = 0; n < 10; n++) await t.rejects(write(edge, points, { namespace: '' }), { code: 'ENOSPC' })
  disk.full = false
  t.match(await write(edge, points, { namespace: '' }), { written: 10_000 })
})

t.test('types of points that found no room bind nobody', async (t) => {
  const { disk, edge } = await edgeOn(t)
  const point = (v: TestPoint['fields'][string]): TestPoint[] => [{ measurement: 'cpu', tags: {}, time: NOW, fields: { v } }]
  disk.full = true
  await t.rejects(write(edge, point(f64(1)), { namespace: '' }), { code: 'ENOSPC' })
  t.same(await edge.measurements(''), [])
  disk.full = false
  t.match(await write(edge, point(i64(1n)), { namespace: '' }), { written: 1 })
  disk.full = true
  await t.rejects(write(edge, point(i64(1n)), { namespace: '' }), { code: 'ENOSPC' })
  disk.full = false
  t.match(await write(edge, point(f64(1)), { namespace: '' }), { written: 0, rejections: [{ code: 'SCHEMA_ERROR' }] }, 'what is known from before stays')
})

t.test('where it cannot be noted how far the upstream is, the others are sent at once', async (t) => {
  const { url } = await upstream(t, { config: { server: { allow_open: true } } })
  const data_dir = temporaryFolder(t)
  const pauses: number[] = []
  let now = 0
  const environment = {
    ...realEnvironment,
    monotonic: () => (now += 1500),
    pause: async (ms: number, signal: AbortSignal) => {
      pauses.push(ms)
      await realEnvironment.pause(Math.min(ms, 1), signal)
    },
  }
  const warned: string[] = []
  const warn = (_: object, text?: string): void => void warned.push(`${text}`)
  const log = { debug() {}, info() {}, warn, error: warn }
  const edge = edgeOf({ data_dir, forward: { upstream: [{ name: 'one', url }] } }, { environment, log })
  await edge.open()
  const file = join(data_dir, 'positions', 'upstream.json')
  mkdirSync(file)
  const send = async (n: number): Promise<void> => {
    await write(edge, [{ measurement: 'cpu', tags: {}, time: NOW + BigInt(n), fields: { v: f64(n) } }], { namespace: '' })
    await edge.drained()
  }
  for (let n = 0; n < 5; n++) await send(n)
  t.same(pauses, [])
  rmdirSync(file)
  for (let n = 5; !existsSync(file); n++) await send(n)
  t.same(warned, ['cannot note how far the upstream is; after a restart what it has is sent again'], 'said once')
  await edge.close()
})
