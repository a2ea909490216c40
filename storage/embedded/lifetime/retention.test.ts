import t from 'tap'
import { INT64_MIN } from '../../common/time.ts'
import type { Cuts } from '../layout.ts'
import { cutOf, sharedCut, tableCut } from './cuts.ts'
import { type Kept, nextCuts } from './retention.ts'

const NO_CUTS: Cuts = { all: null, own: new Map() }
const NONE: ReadonlySet<number> = new Set()
const kept = (id: number, cutoff: bigint, more: Partial<Kept> = {}): Kept => ({ id, cutoff, ownPeriod: false, pending: false, ...more })

t.test('without retention there is nothing to cut', async (t) => {
  t.equal(nextCuts(NO_CUTS, INT64_MIN, [kept(1, INT64_MIN)], 5, NONE), undefined)
})

t.test('one cut serves all measurements that have no retention of their own', async (t) => {
  const first = nextCuts(NO_CUTS, 100n, [kept(1, 100n), kept(2, 100n)], 5, NONE) as Cuts
  t.same(first, { all: { cutoff: 100n, sequence: 5 }, own: new Map() })
  t.equal(nextCuts(first, 100n, [kept(1, 100n), kept(2, 100n)], 9, NONE), undefined, 'it stands until the clock moves on')
  t.same(nextCuts(first, 200n, [kept(1, 200n)], 9, NONE)?.all, { cutoff: 200n, sequence: 9 })
})

t.test('a cut never goes back', async (t) => {
  const cuts: Cuts = { all: { cutoff: 100n, sequence: 5 }, own: new Map([[1, { cutoff: 300n, sequence: 6 }]]) }
  const next = nextCuts(cuts, 50n, [kept(1, 80n, { ownPeriod: true }), kept(2, 50n)], 9, NONE) ?? cuts
  t.same(cutOf(next, 1), { cutoff: 300n, sequence: 6 })
  t.same(cutOf(next, 2), { cutoff: 100n, sequence: 5 })
})

t.test('a measurement with a retention of its own, longer, shorter or none', async (t) => {
  const own = (id: number, cutoff: bigint) => kept(id, cutoff, { ownPeriod: true })
  const cuts = nextCuts(NO_CUTS, 100n, [own(1, 150n), own(2, 60n), own(3, INT64_MIN), kept(4, 100n)], 5, NONE) as Cuts
  t.same(
    [1, 2, 3, 4].map((id) => cutOf(cuts, id)?.cutoff),
    [150n, 60n, INT64_MIN, 100n],
  )
  const later = nextCuts(cuts, 200n, [own(1, 250n), own(2, 160n), own(3, INT64_MIN), own(5, INT64_MIN)], 8, NONE) as Cuts
  t.same(
    [1, 2, 3, 5].map((id) => cutOf(later, id)?.cutoff),
    [250n, 160n, INT64_MIN, INT64_MIN],
    'one that came later is not cut before its time',
  )
})

t.test('a hold and a pending drop keep what they have, and let go of it together', async (t) => {
  const cuts = nextCuts(NO_CUTS, 100n, [kept(1, 100n), kept(2, 100n)], 5, NONE) as Cuts
  const held = nextCuts(cuts, 200n, [kept(1, 120n), kept(2, 200n, { pending: true })], 8, NONE) as Cuts
  t.same(
    [cutOf(held, 1), cutOf(held, 2), held.all],
    [
      { cutoff: 120n, sequence: 8 },
      { cutoff: 100n, sequence: 5 },
      { cutoff: 200n, sequence: 8 },
    ],
  )
  const freed = nextCuts(held, 200n, [kept(1, 200n), kept(2, 200n)], 9, NONE) as Cuts
  t.same(
    [cutOf(freed, 1), cutOf(freed, 2)],
    [
      { cutoff: 200n, sequence: 9 },
      { cutoff: 200n, sequence: 9 },
    ],
    'in what was written since as well',
  )
  t.same(nextCuts(freed, 300n, [kept(1, 300n), kept(2, 300n)], 10, NONE), { all: { cutoff: 300n, sequence: 10 }, own: new Map() })
})

t.test('rows written below a cut after it are hidden by renewing it', async (t) => {
  const cuts: Cuts = { all: { cutoff: 100n, sequence: 5 }, own: new Map() }
  t.same(nextCuts(cuts, 100n, [kept(1, 100n)], 9, new Set([-1])), { all: { cutoff: 100n, sequence: 9 }, own: new Map() })
})

t.test('a shared table goes by what all of its measurements have in common', async (t) => {
  const cuts: Cuts = { all: { cutoff: 100n, sequence: 5 }, own: new Map([[1, { cutoff: 60n, sequence: 7 }]]) }
  t.same(sharedCut(cuts), { cutoff: 60n, sequence: 5 })
  t.same(tableCut(cuts, undefined), { cutoff: 60n, sequence: 5 })
  t.same(tableCut(cuts, 1), { cutoff: 60n, sequence: 7 })
  t.equal(sharedCut({ all: null, own: cuts.own }), null)
})
