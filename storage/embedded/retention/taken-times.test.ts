/** What retention has taken, however its moves follow each other. */
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { INT64_MIN } from '../../common/time.ts'
import type { RetentionMove } from './cutoffs.ts'
import { loadTaken, storeTaken } from './stored.ts'
import { NOTHING_TAKEN, takenOf, withTaken } from './taken-times.ts'

const MEASUREMENTS = [0, 1, 2, 3]
const all = () => true

/** Of each measurement by itself. */
function taken(moves: readonly RetentionMove[], measurement: number): bigint {
  let time = INT64_MIN
  for (const { general, except, own } of moves) {
    const moved = new Map(own).get(measurement)
    for (const one of [moved, general !== null && !except.includes(measurement) ? general : undefined]) if (one !== undefined && one > time) time = one
  }
  return time
}

for (let seed = 1; seed <= 200; seed++)
  t.test(`seed ${seed}`, async (t) => {
    const random = seeded(seed)
    const below = (end: number) => Math.floor(random() * end)
    const time = () => BigInt(below(8))
    const some = () => MEASUREMENTS.filter(() => below(3) === 0)
    const moves: RetentionMove[] = []
    let now = NOTHING_TAKEN
    for (let id = 1; id <= 8; id++) {
      const own = some().map((measurement): [number, bigint] => [measurement, time()])
      moves.push({ id, general: below(2) === 0 ? null : time(), except: some(), own })
      now = withTaken(now, moves[moves.length - 1], all)
      for (const measurement of [...MEASUREMENTS, 9])
        if (takenOf(now, measurement) !== taken(moves, measurement)) t.fail(`measurement ${measurement} after ${id} moves`)
    }
    t.same(loadTaken(storeTaken(now)), now, 'stored')
    for (const move of moves.slice(below(8))) now = withTaken(now, move, all)
    for (const measurement of [...MEASUREMENTS, 9]) t.equal(takenOf(now, measurement), taken(moves, measurement), 'replayed')
  })

t.test('measurements that are gone are forgotten', async (t) => {
  const now = withTaken(NOTHING_TAKEN, { id: 1, general: null, except: [], own: [[1, 5n]] }, all)
  t.equal(withTaken(now, { id: 2, general: 3n, except: [], own: [] }, (measurement) => measurement !== 1).own.size, 0)
})
