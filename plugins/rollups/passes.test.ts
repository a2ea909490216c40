/** What is computed when, and how far a rollup is said to be: over a storage and a registry that only tell. */
import { SvcError } from 'svcdb/lib/errors'
import t from 'tap'
import { definitionOf } from './definition.ts'
import type { Outcome, Work } from './materialiser.ts'
import { Passes, type PassesDependencies } from './passes.ts'
import { Rollup } from './rollup.ts'

const HOUR = 3_600_000_000_000n
const signal = new AbortController().signal

/** A rollup of hours of which none is computed, and the live window from an hour on. @param below what writes its source. */
function stage(liveFrom: number, below?: Rollup) {
  const body = { name: 'r', source_measurement: 'a', target_measurement: 'b', every: '1h', aggregations: ['avg'] }
  const rollup = new Rollup(definitionOf(body, '', 0n), 64)
  rollup.from = rollup.until = 0n
  const hours = (time: bigint | undefined) => Number((time ?? 0n) / HOUR)
  const steps: string[] = []
  const state = {
    now: 0,
    follower: { behind: 0 },
    /** Hours of a slice. */
    slice: 100,
    bring: async () => {},
    admission: async () => {},
    save: async () => {},
    outcome: ({ start = 0n, end }: Work): Outcome => {
      const last = start + BigInt(state.slice) * HOUR
      return { state: 'done', start, end: last < end ? last : end, rows: { times: new BigInt64Array(0) } } as Outcome
    },
  }
  const dependencies = {
    svc: {
      server: { multi_tenancy: false },
      clock: { monotonic: () => state.now, now: () => state.now },
      storage: {
        async admission() {
          await state.admission()
          return { liveFrom: BigInt(liveFrom) * HOUR, keptFrom: undefined }
        },
      },
      log: { error() {} },
    },
    config: { workers: 1, park_after_failures: 5, parked_retry_secs: 60, max_buckets_per_slice: 100 },
    registry: {
      namespaces: () => [''],
      list: () => [rollup],
      of: () => [rollup],
      writerOf: () => below,
      above: () => [],
      async save() {
        await state.save()
        steps.push(`saved up to ${hours(rollup.until)}`)
      },
    },
    follower: state.follower,
    materialiser: {
      compute: async (works: Work[]) =>
        works.map((work) => {
          steps.push(`${hours(work.start)} to ${hours(work.end)}`)
          return state.outcome(work)
        }),
      bring: () => state.bring(),
    },
    metrics: { failures: { inc() {} }, recomputed: { inc() {} } },
  }
  return { rollup, steps, state, passes: new Passes(dependencies as unknown as PassesDependencies) }
}

t.test('a bucket is computed when the live window has come to its end', async (t) => {
  const before = stage(0)
  await before.passes.run(signal)
  t.same(before.steps, [])
  const { passes, steps } = stage(1)
  await passes.run(signal)
  t.same(steps, ['0 to 1', 'saved up to 1'])
})

t.test('a rollup is as far as its rows are written, slice by slice', async (t) => {
  const { passes, steps, state, rollup } = stage(10)
  state.slice = 4
  const writes: (() => void)[] = []
  state.bring = () => new Promise((resolve) => writes.push(resolve))
  const running = passes.run(signal)
  for (const [computed, saved] of [
    ['0 to 10', 4],
    ['4 to 10', 8],
    ['8 to 10', 10],
  ]) {
    for (let turn = 0; turn < 100; turn++) await new Promise((resolve) => setImmediate(resolve))
    t.equal(steps.at(-1), computed, 'nothing is kept before its rows are durable')
    t.ok(Number(rollup.until) / Number(HOUR) < Number(saved))
    writes.shift()?.()
    for (let turn = 0; turn < 100 && !steps.includes(`saved up to ${saved}`); turn++) await new Promise((resolve) => setImmediate(resolve))
    t.ok(steps.includes(`saved up to ${saved}`))
  }
  await running
  t.equal(rollup.until, 10n * HOUR)
})

t.test('a repair that fails is still to be done, whether it was computed or not, and so is one that is broken off', async (t) => {
  const ways: Record<string, (state: ReturnType<typeof stage>['state'], end: () => void) => void> = {
    'not written': (state) => (state.bring = () => Promise.reject(new Error('the disk is full'))),
    'not computed': (state) => (state.outcome = () => ({ state: 'failed', error: new Error('it takes too much') }) as Outcome),
    'broken off': (state, end) => {
      state.bring = async () => {
        end()
        throw new Error('the node stops')
      }
    },
    'no room beside ingest': (state) => (state.bring = () => Promise.reject(new SvcError('BACKPRESSURE', 'memtables are full'))),
  }
  for (const [way, break_] of Object.entries(ways)) {
    const { passes, state, rollup } = stage(10)
    rollup.until = 10n * HOUR
    rollup.mark(3n * HOUR, 5n * HOUR)
    const ending = new AbortController()
    break_(state, () => ending.abort())
    passes.wake(rollup)
    await passes.run(ending.signal)
    t.same(rollup.dirty, [[3n * HOUR, 5n * HOUR]], way)
    t.same(rollup.nextRepair, [3n * HOUR, 5n * HOUR], way)
    t.equal(rollup.until, 10n * HOUR)
  }
})

t.test('what could not be written is computed again', async (t) => {
  const { passes, steps, state, rollup } = stage(2)
  state.bring = () => Promise.reject(new Error('the disk is full'))
  await passes.run(signal)
  t.equal(rollup.until, 0n)
  t.match(rollup.failure, { error: 'the disk is full', count: 1 })
  state.bring = async () => {}
  state.now += 1000
  await passes.run(signal)
  t.equal(rollup.until, 2n * HOUR)
  t.same(steps, ['0 to 2', 'saved up to 0', '0 to 2', 'saved up to 2'])
})

t.test('one that failed is not tried again before its time, whoever wakes it', async (t) => {
  const { passes, steps, state, rollup } = stage(2)
  state.bring = () => Promise.reject(new Error('the disk is full'))
  for (let n = 0; n < 5; n++) {
    passes.wake(rollup)
    await passes.run(signal)
  }
  t.same(steps, ['0 to 2', 'saved up to 0'])
  state.now += 1000
  await passes.run(signal)
  t.equal(steps.length, 4)
})

t.test('nothing is computed from what the tier below has still to repair, or has just written', async (t) => {
  const body = { name: 'below', source_measurement: 'raw', target_measurement: 'a', every: '1h', aggregations: ['avg'] }
  const tiers = (until: number) => {
    const below = new Rollup(definitionOf(body, '', 0n), 64)
    below.from = 0n
    below.until = 10n * HOUR
    const upper = stage(20, below)
    upper.rollup.until = BigInt(until) * HOUR
    return { below, ...upper }
  }
  for (const [until, what] of [
    [0, '0 to 10'],
    [10, '3 to 5'],
  ] as const) {
    const { below, rollup, passes, steps } = tiers(until)
    rollup.mark(3n * HOUR, 5n * HOUR)
    below.mark(4n * HOUR, 6n * HOUR)
    passes.wake(rollup)
    await passes.run(signal)
    t.same(steps, [], what)
    below.begin([4n * HOUR, 6n * HOUR])
    below.done([4n * HOUR, 6n * HOUR], false)
    passes.wake(rollup)
    await passes.run(signal)
    t.equal(steps[0], what)
  }
  const { below, rollup, passes, steps, state } = tiers(0)
  // What changed below its watermark is not marked yet.
  state.follower.behind = 1
  state.now = below.doneAt = 5000
  passes.wake(rollup)
  await passes.run(signal)
  t.same(steps, [])
  state.follower.behind = 0
  await passes.run(signal)
  t.equal(steps[0], '0 to 10')
})

t.test('buckets to be repaired that were left out of a slice stay to be repaired', async (t) => {
  const { passes, steps, state, rollup } = stage(10)
  rollup.until = 10n * HOUR
  rollup.mark(2n * HOUR, 3n * HOUR)
  const { outcome } = state
  state.outcome = () => {
    state.outcome = outcome
    return { state: 'apart' } as Outcome
  }
  passes.wake(rollup)
  await passes.run(signal)
  t.same(
    steps.filter((step) => step.includes(' to ') && !step.startsWith('saved')),
    ['2 to 3', '2 to 3'],
  )
  t.same(rollup.dirty, [])
})

t.test('all that is to be repaired is, however many ranges it lies in', async (t) => {
  const { passes, steps, rollup } = stage(10)
  rollup.until = 10n * HOUR
  for (const hour of [2n, 4n, 7n]) rollup.mark(hour * HOUR, (hour + 1n) * HOUR)
  passes.wake(rollup)
  await passes.run(signal)
  t.same(
    steps.filter((step) => !step.startsWith('saved')),
    ['2 to 3', '4 to 5', '7 to 8'],
  )
  t.same(rollup.dirty, [])
})

t.test('one thing is done to a rollup at a time', async (t) => {
  const { passes, rollup } = stage(10)
  const order: string[] = []
  const work = (name: string) =>
    passes.alone(rollup, async () => {
      order.push(`${name} begins`)
      await new Promise((resolve) => setImmediate(resolve))
      order.push(`${name} ends`)
    })
  await Promise.all([work('a'), work('b'), work('c')])
  t.same(order, ['a begins', 'a ends', 'b begins', 'b ends', 'c begins', 'c ends'])
})

t.test('a repair is done although the storage failed when it had its turn', async (t) => {
  const { rollup, steps, state, passes } = stage(3)
  await passes.run(signal)
  t.equal(rollup.until, 3n * HOUR)
  rollup.mark(0n, HOUR)
  passes.wake(rollup)
  const full = new SvcError('STORAGE_FULL', 'no space left on the data volume')
  state.admission = async () => {
    // Of the look, and then of the turn.
    if (steps.push('asked') % 2 === 0) throw full
  }
  steps.length = 0
  await t.rejects(passes.run(signal), full)
  state.admission = async () => {}
  steps.length = 0
  await passes.run(signal)
  t.same(steps, ['0 to 1', 'saved up to 3'])
})

t.test('a rollup that was left out of a slice has its turn although the slice could not be saved', async (t) => {
  const { rollup, steps, state, passes } = stage(3)
  await passes.run(signal)
  rollup.mark(0n, HOUR)
  passes.wake(rollup)
  const { outcome } = state
  state.outcome = () => ({ state: 'apart' })
  state.save = async () => {
    throw new SvcError('STORAGE_FULL', 'no space left on the data volume')
  }
  await t.rejects(passes.run(signal), { code: 'STORAGE_FULL' })
  state.outcome = outcome
  state.save = async () => {}
  steps.length = 0
  await passes.run(signal)
  t.same(steps, ['0 to 1', 'saved up to 3'])
})
