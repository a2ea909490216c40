/** Which sources a cutoff masks rows of: those that were there before it and that no merge has cleared of them. */
import t from 'tap'
import { INT64_MIN } from '../../common/time.ts'
import { Random } from '../../conformance/random.ts'
import { ANY_OTHER, cutoffFor, NO_CUTOFFS, type RetentionMove, settledBelow, sharedCutoffFor, withMove, withoutSpent } from './cutoffs.ts'

const SEQUENCE = 10
const ID = 5
const latest = (all: readonly { cutoff: bigint }[]): bigint => all.reduce((most, { cutoff }) => (cutoff > most ? cutoff : most), INT64_MIN)
const SEED = Number(process.env.SVC_SEED ?? Date.now() % 1_000_000)

for (const [what, move, measurement] of [
  ['of measurements in general', { general: 100n, except: [2], own: [] }, 1],
  ['of one measurement', { general: null, except: [], own: [[1, 100n]] }, 1],
] as const)
  t.test(`a cutoff ${what} masks what was there before it`, async (t) => {
    const cutoffs = withMove(NO_CUTOFFS, { id: ID, ...move }, SEQUENCE)
    const of = (sequence: number, cleared: number, id: number = measurement): bigint => cutoffFor(cutoffs, id, { sequence, cleared })
    t.equal(of(SEQUENCE - 1, 0), 100n)
    t.equal(of(SEQUENCE, 0), INT64_MIN, 'what was acknowledged after it stays')
    t.equal(of(SEQUENCE - 1, ID - 1), 100n, 'cleared of an earlier one')
    t.equal(of(SEQUENCE - 1, ID), INT64_MIN, 'cleared of it')
    t.equal(of(SEQUENCE - 1, 0, 2), INT64_MIN, 'of a measurement that it leaves out')
  })

t.test(`cutoffs that are left mask what all moves did (seed ${SEED})`, async (t) => {
  const MEASUREMENTS = [0, 1, 2, 3]
  for (let round = 0; round < 100; round++) {
    const random = new Random(SEED + round)
    const some = (share: number) => MEASUREMENTS.filter(() => random.chance(share))
    const moves: (RetentionMove & { sequence: number })[] = []
    let cutoffs = NO_CUTOFFS
    for (let id = 1, sequence = 1; id <= 12; id++) {
      sequence += random.below(3)
      const except = some(0.3)
      const own = some(0.3).map((measurement) => [measurement, BigInt(random.below(50))] as const)
      // A configuration that keeps more may come after one that kept less.
      const move = { id, general: random.chance(0.7) ? BigInt(random.below(50)) : null, except, own }
      moves.push({ ...move, sequence })
      cutoffs = withMove(cutoffs, move, sequence)
    }
    /** Of each measurement, by all moves. */
    const ofMoves = (measurement: number) =>
      moves.flatMap(({ id, sequence, general, except, own }) =>
        [...(general === null || except.includes(measurement) ? [] : [general]), ...own.flatMap(([of, cutoff]) => (of === measurement ? [cutoff] : []))].map(
          (cutoff) => ({ id, sequence, cutoff }),
        ),
      )
    const wrong: string[] = []
    for (let sequence = 0; sequence < 30; sequence += 2)
      for (let cleared = 0; cleared <= 12; cleared += 3) {
        const source = { sequence, cleared }
        const masked = [ANY_OTHER, ...MEASUREMENTS].map((measurement) => cutoffFor(cutoffs, measurement, source))
        for (const [i, measurement] of [ANY_OTHER, ...MEASUREMENTS].entries()) {
          const own = ofMoves(measurement).filter((one) => one.sequence > sequence)
          // What was cleared is not there, whether it is masked or not.
          const gone = latest(own.filter(({ id }) => id <= cleared))
          if (latest([{ cutoff: masked[i] }, { cutoff: gone }]) !== latest(own)) wrong.push(`${measurement} in ${JSON.stringify(source)}`)
        }
        const there = some(0.5)
        const least = [masked[0], ...there.map((measurement) => masked[measurement + 1])].reduce((a, b) => (b < a ? b : a))
        const shared = sharedCutoffFor(cutoffs, source, (measurement) => there.includes(measurement))
        if (shared !== least) wrong.push(`shared by ${there} in ${JSON.stringify(source)}`)
      }
    for (const measurement of MEASUREMENTS)
      for (let cutoff = 0n; cutoff < 50n; cutoff += 7n) {
        const below = Math.max(0, ...ofMoves(measurement).flatMap((one) => (one.cutoff >= cutoff ? [one.sequence] : [])))
        if (settledBelow(cutoffs, measurement, cutoff) !== below) wrong.push(`${measurement} settled at ${cutoff}`)
      }
    if (wrong.length > 0) return t.fail(`SVC_SEED=${SEED + round}: ${wrong.slice(0, 3)}`)
  }
})

t.test('cutoffs that mask nothing any more go, of each measurement by itself', async (t) => {
  const first = withMove(NO_CUTOFFS, { id: 1, general: 100n, except: [1, 2], own: [[1, 50n]] }, 1)
  const both = withMove(first, { id: 2, general: null, except: [], own: [[2, 70n]] }, 2)
  t.equal(
    withoutSpent(both, () => true),
    both,
  )
  const left = withoutSpent(both, (_, measurement) => measurement !== 1)
  t.same([left.general.length, [...left.own.keys()]], [1, [2]])
  t.same(withoutSpent(both, ({ id }) => id === 2).general, [])
})
