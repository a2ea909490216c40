/** Which segments may hold rows that a delete masks, to the last nanosecond and series; and that no number of a tombstone is given twice. */
import t from 'tap'
import { Unstored } from '../catalog/unstored.ts'
import type { StateEvent } from '../threads/messages.ts'
import type { Tombstone } from '../threads/removals.ts'
import type { SegmentMeta } from '../threads/segment-entry.ts'
import { NO_CUTOFFS, withMove } from './cutoffs.ts'
import { NOTHING_TAKEN } from './taken-times.ts'
import { Tombstones, touches } from './tombstones.ts'

const tombstone = (more: Partial<Tombstone> = {}): Tombstone => ({ id: 5, measurement: 1, sequence: 10, series: null, start: 100n, end: 200n, ...more })
const segment = { sequence: 9, minTime: '150', maxTime: '160', minSeries: 10, maxSeries: 20 } as SegmentMeta

t.test('a tombstone touches what it has rows of, and nothing that came with or after it, or that it is cleared of', async (t) => {
  for (const [what, is, own, of] of [
    ['within', true, {}, {}],
    ['of the same sequence', false, {}, { sequence: 10 }],
    ['of a later one', false, {}, { sequence: 11 }],
    ['cleared of it', false, {}, { cleared: 5 }],
    ['cleared of a later one', false, {}, { cleared: 6 }],
    ['cleared of an earlier one', true, {}, { cleared: 4 }],
    ['ends where it begins', true, {}, { minTime: '50', maxTime: '100' }],
    ['ends before it', false, {}, { minTime: '50', maxTime: '99' }],
    ['begins where it ends', true, {}, { minTime: '200', maxTime: '300' }],
    ['begins behind it', false, {}, { minTime: '201', maxTime: '300' }],
    ['its last series', true, { series: Int32Array.of(20, 30) }, {}],
    ['series behind', false, { series: Int32Array.of(21, 30) }, {}],
    ['its first series', true, { series: Int32Array.of(1, 10) }, {}],
    ['series before', false, { series: Int32Array.of(1, 9) }, {}],
    ['no series', false, { series: new Int32Array(0) }, {}],
  ] as const)
    t.equal(touches(tombstone(own), { ...segment, ...of }), is, what)
})

t.test('numbers go on above all that were given, also those of tombstones and cutoffs that are gone', async (t) => {
  const events: StateEvent[] = []
  const unstored = new Unstored()
  const tombstones = new Tombstones(unstored, (event) => void events.push(event))
  const cutoffs = withMove(NO_CUTOFFS, { id: 6, general: 1n, except: [], own: [] }, 1)
  tombstones.load([tombstone({ id: 4 })], cutoffs, NOTHING_TAKEN)
  t.same([tombstones.nextId, tombstones.newest], [7, 6])
  tombstones.load([], cutoffs, NOTHING_TAKEN, 9)
  t.same([tombstones.nextId, tombstones.newest], [9, 6], 'those below are taken, though nothing of them is in force')
  tombstones.add(tombstone({ id: 9 }))
  t.same([...unstored.ids('tombstone')], [9])
  tombstones.remove([9, 4])
  t.same([tombstones.nextId, tombstones.newest], [10, 9])
  t.same([tombstones.of(1), [...tombstones.byId]], [[], []])
  tombstones.setCutoffs(withMove(cutoffs, { id: 12, general: 2n, except: [], own: [] }, 2))
  t.same([tombstones.nextId, tombstones.newest], [13, 12])
  t.same([...unstored.ids('tombstone')], [9, 4])
  t.ok(unstored.has('retention', 0))
  t.same(
    events.map((event) => (event.kind === 'tombstones' ? [event.added.map(({ id }) => id), event.removed] : event.kind)),
    [[[9], []], [[], [9, 4]], 'cutoffs'],
  )
})

t.test('of several tombstones of a measurement those that are not removed stay', async (t) => {
  const events: StateEvent[] = []
  const tombstones = new Tombstones(new Unstored(), (event) => void events.push(event))
  const [first, second, other] = [tombstone({ id: 4 }), tombstone({ id: 5 }), tombstone({ id: 6, measurement: 2 })]
  tombstones.load([first, second, other], NO_CUTOFFS, NOTHING_TAKEN)
  t.same([tombstones.nextId, tombstones.newest], [7, 6], 'of those that are loaded')
  tombstones.remove([4])
  t.same(tombstones.of(1), [second])
  t.same(tombstones.of(2), [other])
  tombstones.add({ ...second, end: 300n })
  t.same(tombstones.of(1), [{ ...second, end: 300n }], 'one that comes again replaces its former self')
  t.match(tombstones.events(), [{ added: [{ id: 5 }, { id: 6 }], removed: [] }, { kind: 'cutoffs' }])
  const before = events.length
  tombstones.remove([])
  t.equal(events.length, before)
})

t.test('what retention has taken is known with its cutoffs, and stays where only these change', async (t) => {
  const tombstones = new Tombstones(new Unstored(), () => {})
  t.equal(tombstones.takenBefore(1), undefined)
  tombstones.setCutoffs(NO_CUTOFFS, { general: 100n, own: new Map([[2, 50n]]) })
  t.same(
    [1, 2].map((measurement) => tombstones.takenBefore(measurement)),
    [100n, 50n],
  )
  tombstones.setCutoffs(NO_CUTOFFS)
  t.equal(tombstones.takenBefore(1), 100n)
  const cutoffs = withMove(NO_CUTOFFS, { id: 6, general: 1n, except: [], own: [] }, 1)
  tombstones.setCutoffs(cutoffs)
  t.equal(tombstones.cutoffs, cutoffs)
  tombstones.load([], NO_CUTOFFS, { general: 7n, own: new Map() })
  t.same([tombstones.takenBefore(1), tombstones.cutoffs], [7n, NO_CUTOFFS])
})
