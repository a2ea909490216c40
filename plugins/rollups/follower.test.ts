/** What each change of a source makes dirty, in its rollups and in the tiers above; and what of it is known after a start, a gap and a failure. */
import { setImmediate as turn } from 'node:timers/promises'
import type { Change } from 'svcdb'
import t from 'tap'
import { FIRST_TIME } from './boundaries.ts'
import { definitionOf } from './definition.ts'
import { Follower, type FollowerDependencies } from './follower.ts'
import { Rollup } from './rollup.ts'

const S = 1_000_000_000n

class Cursor {
  closed = false
  /** Where the changes end. */
  at = 'h/5'
  readonly behind = 0
  private waiting = Promise.withResolvers<{ done: boolean; value?: unknown }>()

  async next() {
    const result = await this.waiting.promise
    this.waiting = Promise.withResolvers()
    return result
  }

  async position() {
    return this.at
  }

  select() {}

  close() {
    this.closed = true
    this.waiting.resolve({ done: true })
  }

  fail() {
    this.waiting.reject(new Error('it cannot be read'))
  }

  async tell(change: object) {
    this.waiting.resolve({ done: false, value: change })
    await turn()
  }
}

/** Of ten seconds over `a`, computed from 100 s to 200 s, and of twenty over what it writes. */
function stage(position?: string) {
  const rollupOf = (name: string, source: string, target: string, every: string) => {
    const rollup = new Rollup(
      definitionOf({ name, source_measurement: source, target_measurement: target, every, aggregations: [source === 'a' ? 'avg' : 'max'] }, '', 0n),
      64,
    )
    rollup.begin([100n * S, 200n * S])
    rollup.done([100n * S, 200n * S], true)
    return rollup
  }
  const [lower, upper] = [rollupOf('lower', 'a', 'b', '10s'), rollupOf('upper', 'b', 'c', '20s')]
  const cursors: Cursor[] = []
  const failures: string[] = []
  const registry = {
    size: 2,
    position,
    all: () => [lower, upper],
    of: (_namespace: string, measurement: string) => [lower, upper].filter(({ definition }) => definition.source === measurement),
    above: (rollup: Rollup) => (rollup === lower ? [upper] : []),
  }
  const asked: { after?: string }[] = []
  const changes = (request: { after?: string }) => {
    const cursor = new Cursor()
    cursors.push(cursor)
    asked.push(request)
    return cursor
  }
  const dependencies = {
    storage: () => ({ changes }),
    registry,
    metrics: { invalidations: { inc() {} } },
    marked: () => {},
    failed: (error: Error) => failures.push(error.message),
  }
  const follower = new Follower(dependencies as unknown as FollowerDependencies)
  const dirty = () => [lower, upper].map((rollup) => rollup.dirty.map(([start, end]) => [start === FIRST_TIME ? 'first' : Number(start / S), Number(end / S)]))
  return { follower, lower, upper, registry, cursors, asked, failures, dirty }
}

const rowsAtNanos = (...times: bigint[]): object => ({
  kind: 'rows',
  namespace: '',
  measurement: 'a',
  times: new Int32Array(BigInt64Array.from(times).buffer),
  rows: times.length,
})
const rowsAt = (...seconds: bigint[]): object => rowsAtNanos(...seconds.map((x) => x * S))
const told = (change: Partial<Change>) => ({ namespace: '', measurement: 'a', ...change })

t.test('each change marks what it has changed, and the tier above with it', async (t) => {
  for (const [change, want] of [
    [rowsAt(250n, 133n, 260n), [[[130, 140]], [[120, 140]]]],
    [rowsAt(250n), [[], []]],
    [rowsAt(200n), [[], []]],
    [rowsAtNanos(200n * S - 1n), [[[190, 200]], [[180, 200]]]],
    [told({ kind: 'series_deleted', start: 111n * S, end: 121n * S } as Partial<Change>), [[[110, 130]], [[100, 140]]]],
    [told({ kind: 'series_deleted' }), [[[100, 200]], [[100, 200]]]],
    [told({ kind: 'measurement_dropped' }), [[[100, 200]], [[100, 200]]]],
    [told({ kind: 'measurement_restored' }), [[[100, 200]], [[100, 200]]]],
    [{ ...rowsAt(133n), measurement: 'other' }, [[], []]],
  ] as const) {
    const { follower, cursors, dirty } = stage('h/1')
    follower.follow()
    await cursors[0].tell(change)
    t.same(
      dirty(),
      want,
      JSON.stringify(change, (_, value) => (typeof value === 'bigint' ? String(value) : value)),
    )
    await follower.close()
  }
})

t.test('the tier above has all that is dirty, not only what the first of several changes made so', async (t) => {
  const { follower, cursors, dirty } = stage('h/1')
  follower.follow()
  await cursors[0].tell(rowsAt(133n))
  await cursors[0].tell(rowsAt(105n, 175n))
  t.same(dirty()[1], [
    [100, 140],
    [160, 180],
  ])
  await follower.close()
})

t.test('behind a gap, and where nobody knows what was seen, all that was computed is dirty', async (t) => {
  const all = (found: unknown[][][]) => found.every((ranges) => ranges.length === 1 && ranges[0][1] === 200 && typeof ranges[0][0] !== 'undefined')
  const anew = stage()
  anew.follower.follow()
  t.ok(all(anew.dirty()), 'without a place')
  t.ok(anew.follower.caughtUp)
  await anew.follower.close()
  const gap = stage('h/1')
  gap.follower.follow()
  t.same(gap.dirty(), [[], []])
  await gap.cursors[0].tell({ kind: 'gap' })
  t.ok(all(gap.dirty()), 'behind a gap')
  await gap.follower.close()
})

t.test('it has caught up when all was seen that had changed before its start', async (t) => {
  const { follower, cursors } = stage('h/1')
  follower.follow()
  await turn()
  const [cursor, probe] = cursors
  t.ok(probe.closed)
  for (const [at, caughtUp] of [
    ['h/1', false],
    ['h/4', false],
    ['h/5', true],
  ] as const) {
    cursor.at = at
    t.equal(await follower.position(), at)
    t.equal(follower.caughtUp, caughtUp, at)
  }
  await follower.close()
})

t.test('a place is told only when what was handed out before it has been seen', async (t) => {
  const { follower, cursors, dirty } = stage('h/1')
  follower.follow()
  const position = follower.position()
  void cursors[0].tell(rowsAt(133n))
  await position
  t.same(dirty()[0], [[130, 140]])
  await follower.close()
})

t.test('a cursor that fails is followed by one from the place that is kept, and its own place counts no more', async (t) => {
  const { follower, cursors, asked, failures, registry } = stage('h/1')
  follower.follow()
  await turn()
  const position = follower.position()
  cursors[0].fail()
  t.equal(await position, undefined)
  t.same([failures, follower.following, cursors[0].closed], [['it cannot be read'], false, true])
  registry.position = 'h/3'
  const before = cursors.length
  follower.follow()
  t.ok(follower.following)
  t.equal(asked[before].after, 'h/3')
  await follower.close()
})
