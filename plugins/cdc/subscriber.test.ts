/** One stream by itself, with a cursor and a clock of its own. */
import type { Change, ChangeCursor } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { ManualClock, MetricsRegistry } from 'svcdb/testkit'
import t from 'tap'
import type { CdcConfig } from './config.ts'
import { streamMetrics } from './metrics.ts'
import { PointFrames } from './point-frames.ts'
import { subscriptionOf } from './request.ts'
import { Subscriber } from './subscriber.ts'

const config: CdcConfig = {
  max_subscribers: 1,
  max_subscribers_per_namespace: 1,
  max_buffered_bytes: 65_536,
  slow_reader_secs: 30,
  keep_alive_secs: 15,
  max_stream_secs: 3600,
}

const dropped = (measurement: string, position: string): Change => ({ kind: 'measurement_dropped', namespace: '', measurement, sequence: 1, position })

const deleted = (position: string): Change => {
  const series = () => ['a', 'b', 'c'].map((host) => ({ host }))
  return { kind: 'series_deleted', namespace: '', measurement: 'm', sequence: 1, position, series }
}

/** @returns all that is sent of these changes until the stream has ended. */
async function sent(changes: Change[], lastId: string | undefined, stands: (told: number) => void | Promise<void>): Promise<string> {
  let told = 0
  const cursor = {
    next: async () => (told < changes.length ? { done: false, value: changes[told++] } : { done: true, value: undefined }),
    position: async () => 'x-0',
    behind: 0,
    close: () => {},
  } as unknown as ChangeCursor
  const registry = new MetricsRegistry()
  const metrics = streamMetrics(registry.child('cdc'), new Set())
  const subscriber = new Subscriber({
    stands: () => stands(told),
    cursor,
    subscription: subscriptionOf({}, lastId, false),
    points: new PointFrames(() => true),
    config,
    clock: new ManualClock(),
    metrics,
  })
  const run = subscriber.run()
  const parts: Uint8Array[] = []
  for await (const part of subscriber.output) parts.push(part)
  await run
  registry.close()
  return Buffer.concat(parts).toString()
}

t.test('nothing is told to whose credential has ended, however short before', async (t) => {
  const changes = [dropped('first', 'x-1'), dropped('second', 'x-2')]
  const stands = async (told: number): Promise<void> => {
    // As one that has ended with its namespace: it is known when it is asked for.
    await null
    if (told === 2) throw new SvcError('UNAUTHORIZED', 'cannot read: the key was revoked')
  }
  const text = await sent(changes, undefined, stands)
  t.match(text, 'first')
  t.notMatch(text, 'second')
  t.match(text, '"reason":"credential"')
})

t.test('frames that a reader has had are left out of the change that they were of, and of no other', async (t) => {
  const { filters } = subscriptionOf({}, undefined, false)
  const hosts = async (...changes: Change[]): Promise<string[]> => (await sent(changes, `x-1.2.${filters}.2`, () => {})).match(/(?<="host":")./g) ?? []
  t.same(await hosts(deleted('y-2'), deleted('y-3')), ['c', 'a', 'b', 'c'], 'its place within another history is the same')
  t.same(await hosts(deleted('x-3'), deleted('x-2')), ['a', 'b', 'c', 'a', 'b', 'c'], 'that change is gone')
})
