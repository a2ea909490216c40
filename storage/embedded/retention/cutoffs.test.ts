/** Which sources a cutoff masks rows of: those that were there before it and that no merge has cleared of them. */
import t from 'tap'
import { INT64_MIN } from '../../common/time.ts'
import { cutoffFor, NO_CUTOFFS, withMove } from './cutoffs.ts'

const SEQUENCE = 10
const ID = 5

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
