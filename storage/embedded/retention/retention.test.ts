import t from 'tap'
import { INT64_MAX, INT64_MIN, later } from '../../common/time.ts'
import { Random } from '../../conformance/random.ts'
import type { RetentionCutoffs } from '../threads/removals.ts'
import { cutoffFor, NO_CUTOFFS, newestId, newestOf, type RetentionMove, settledBelow, sharedCutoffFor, withMove, withoutSpent } from './cutoffs.ts'
import { type Kept, nextMove } from './retention.ts'

const kept = (id: number, cutoff: bigint): Kept => ({ id, tables: [id], cutoff })
const old = () => INT64_MIN
const move = (id: number, general: bigint | null, more: Partial<RetentionMove> = {}): RetentionMove => ({ id, general, except: [], own: [], ...more })
const source = (sequence: number, cleared = 0) => ({ sequence, cleared })

t.test('retention moves when there is a row that it does not keep, and not otherwise', async (t) => {
  t.equal(nextMove(NO_CUTOFFS, INT64_MIN, [kept(1, INT64_MIN)], old), undefined, 'without retention')
  t.equal(
    nextMove(NO_CUTOFFS, 100n, [kept(1, 100n)], () => 100n),
    undefined,
    'nothing is as old',
  )
  t.same(
    nextMove(NO_CUTOFFS, 100n, [kept(1, 100n)], (table) => (table === 1 ? 99n : INT64_MAX)),
    { general: 100n, except: [], own: [] },
  )
  const moved = withMove(NO_CUTOFFS, move(1, 100n), 5)
  t.equal(
    nextMove(moved, 100n, [kept(1, 100n)], (_, sequence) => (sequence < 5 ? 0n : 100n)),
    undefined,
    'they are masked already',
  )
  t.same(nextMove(moved, 100n, [kept(1, 100n)], () => 99n)?.general, 100n, 'rows that came after it, when the clock was set back')
  const alone = withMove(NO_CUTOFFS, move(1, null, { own: [[1, 150n]] }), 5)
  t.equal(
    nextMove(alone, INT64_MIN, [kept(1, 150n)], (_, sequence) => (sequence < 5 ? 0n : 150n)),
    undefined,
    'of a measurement with a retention of its own as well',
  )
})

t.test('the newest cutoff of a measurement is none that it is left out of', async (t) => {
  t.equal(newestOf(NO_CUTOFFS, 7), undefined)
  const first = withMove(NO_CUTOFFS, move(1, 100n, { except: [7, 9], own: [[7, 50n]] }), 5)
  const cutoffs = withMove(first, move(2, null, { own: [[8, 200n]] }), 6)
  t.same(
    [7, 8, 9, 10].map((measurement) => newestOf(cutoffs, measurement)?.cutoff),
    [50n, 200n, undefined, 100n],
  )
  const moved = withMove(cutoffs, move(3, 300n, { except: [9] }), 9)
  t.same(
    [7, 8, 9, 10].map((measurement) => newestOf(moved, measurement)?.cutoff),
    [300n, 300n, undefined, 300n],
  )
  const lower = withMove(withMove(NO_CUTOFFS, move(1, null, { own: [[7, 400n]] }), 5), move(2, 300n), 9)
  t.equal(newestOf(lower, 7)?.cutoff, 300n, 'the newest, and not the latest time')
  const { general, own } = withoutSpent(lower, ({ id }) => id !== 2)
  t.same([general.length, own.size], [0, 1])
})

t.test('a cutoff takes the place of those that mask no more than it does', async (t) => {
  const own = (id: number, cutoff: bigint) => move(id, null, { own: [[1, cutoff]] })
  const count = (moves: RetentionMove[], sequences: number[]) => {
    const { general, own } = moves.reduce((cutoffs, one, i) => withMove(cutoffs, one, sequences[i]), NO_CUTOFFS)
    return general.length + (own.get(1)?.length ?? 0)
  }
  for (const moving of [(id: number, cutoff: bigint) => move(id, cutoff), own]) {
    t.equal(count([moving(1, 100n), moving(2, 200n)], [5, 9]), 1)
    t.equal(count([moving(1, 100n), moving(2, 100n)], [5, 9]), 1, 'the clock was set back')
    t.equal(count([moving(1, 100n), moving(2, 200n)], [5, 5]), 1, 'nothing was written meanwhile')
    t.equal(count([moving(1, 200n), moving(2, 100n)], [5, 9]), 2)
  }
})

t.test('measurements that keep more, or less, or all', async (t) => {
  const all = [kept(1, 150n), kept(2, 60n), kept(3, INT64_MIN), kept(4, 100n)]
  t.same(nextMove(NO_CUTOFFS, 100n, all, old), {
    general: 100n,
    except: [2, 3],
    own: [
      [1, 150n],
      [2, 60n],
    ],
  }) // prettier-ignore
  t.same(
    nextMove(NO_CUTOFFS, 100n, all, (table) => (table === 4 ? 100n : 0n)),
    {
      general: null,
      except: [],
      own: [
        [1, 150n],
        [2, 60n],
      ],
    }, // prettier-ignore
    'each by its own rows',
  )
})

t.test('one that kept more, by a hold or a pending drop, follows when it does so no longer', async (t) => {
  const moved = withMove(NO_CUTOFFS, move(1, 100n, { except: [2] }), 5)
  const newer = (_: number, sequence: number): bigint => (sequence < 5 ? 0n : 100n)
  t.same(nextMove(moved, 100n, [kept(1, 100n), kept(2, INT64_MIN)], newer), undefined)
  t.same(nextMove(moved, 100n, [kept(1, 100n), kept(2, 100n)], newer), { general: null, except: [], own: [[2, 100n]] })
})

t.test('a move covers those before it; what an earlier configuration masked stays masked, and no more than that', async (t) => {
  let now = withMove(NO_CUTOFFS, move(1, 100n, { own: [[1, 300n]] }), 5)
  t.same([cutoffFor(now, 1, source(4)), cutoffFor(now, 2, source(4)), cutoffFor(now, 1, source(5))], [300n, 100n, INT64_MIN])
  now = withMove(now, move(2, 200n), 8)
  t.equal(now.general.length, 1)
  t.same([cutoffFor(now, 1, source(4)), cutoffFor(now, 1, source(7))], [300n, 200n])
  now = withMove(now, move(3, 50n), 11)
  t.same(
    [7, 8, 10, 11].map((sequence) => cutoffFor(now, 2, source(sequence))),
    [200n, 50n, 50n, INT64_MIN],
    'a longer retention',
  )
  now = withMove(now, move(4, 400n, { except: [2] }), 14)
  t.same([...now.own.keys()], [2], 'what now follows the rest is not named any more')
  t.same(
    [7, 8, 11].map((sequence) => cutoffFor(now, 2, source(sequence))),
    [200n, 50n, INT64_MIN],
    'one that is left out keeps what was masked of it',
  )
  t.same([cutoffFor(now, 3, source(13)), cutoffFor(now, 3, source(13, 4))], [400n, INT64_MIN], 'unless the file has it applied')
  t.same([settledBelow(now, 2, 150n), settledBelow(now, 3, 150n), settledBelow(now, 3, 500n)], [8, 14, 0])
  t.same(
    sharedCutoffFor(now, source(9), () => true),
    50n,
  ) // prettier-ignore
  t.same(
    sharedCutoffFor(now, source(9), (id) => id !== 2),
    400n,
  ) // prettier-ignore
  t.equal(newestId(now), 4)
  t.same(
    withoutSpent(now, ({ sequence }) => sequence > 8),
    { general: [{ id: 4, cutoff: 400n, sequence: 14, except: new Set([2]) }], own: new Map([[2, [{ id: 3, cutoff: 50n, sequence: 11 }]]]) },
  )
  t.equal(
    withoutSpent(now, () => true),
    now,
  )
})

t.test('random moves together mask what each by itself would', async (t) => {
  for (let seed = 1; seed <= 300; seed++) {
    const random = new Random(seed)
    const moves: { move: RetentionMove; sequence: number }[] = []
    let now: RetentionCutoffs = NO_CUTOFFS
    for (let n = 0, sequence = 1; n < 12; n++) {
      const time = () => BigInt(random.below(8) * 10)
      const some = () => [1, 2, 3].filter(() => random.chance(0.4))
      const one = move(n + 1, random.chance(0.7) ? time() : null, { except: some(), own: some().map((id) => [id, time()] as const) })
      if (one.general === null) Object.assign(one, { except: [] })
      sequence += random.below(3)
      moves.push({ move: one, sequence })
      now = withMove(now, one, sequence)
      for (const measurement of [1, 2, 3, 4])
        for (let at = 0; at <= sequence; at++) {
          const expected = moves.reduce((first, { move: { general, except, own }, sequence }) => {
            if (sequence <= at) return first
            const times = [
              general === null || except.includes(measurement) ? INT64_MIN : general,
              ...own.flatMap(([id, time]) => (id === measurement ? [time] : [])),
            ]
            return times.reduce(later, first)
          }, INT64_MIN)
          const found = cutoffFor(now, measurement, source(at))
          if (found !== expected) return t.fail(`seed ${seed}, move ${n}, measurement ${measurement}, sequence ${at}: ${found}, not ${expected}`)
        }
    }
  }
  t.pass()
})
