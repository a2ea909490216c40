/** What a rollup knows of its buckets, and what of it comes through a restart. */
import t from 'tap'
import { FIRST_TIME } from './boundaries.ts'
import { definitionOf } from './definition.ts'
import { Rollup } from './rollup.ts'

const S = 1_000_000_000n
const definition = definitionOf({ name: 'r', source_measurement: 'a', target_measurement: 'b', every: '10s', aggregations: ['avg'] }, '', 0n)
const times = (...seconds: bigint[]): Int32Array => new Int32Array(BigInt64Array.from(seconds, (x) => x * S).buffer)

/** With all buckets from `from` to `until` computed. */
function computed(from: bigint, until: bigint): Rollup {
  const rollup = new Rollup(definition, 64)
  rollup.begin([from * S, until * S])
  rollup.done([from * S, until * S], true)
  return rollup
}

const restarted = (rollup: Rollup): Rollup => Rollup.restore(JSON.parse(JSON.stringify(rollup.kept())), 64)

t.test('what was given up or taken by retention is not computed again, nor after a restart', async (t) => {
  const rollup = computed(100n, 200n)
  rollup.markTimes(times(105n, 155n), 2)
  rollup.lose(120n * S)
  t.same(rollup.dirty, [[150n * S, 160n * S]], 'what lies before is given up')
  rollup.raiseFloor(140n * S)
  const again = restarted(rollup)
  t.match(again, { from: 100n * S, until: 200n * S, floor: 140n * S, lost: 120n * S, unclipped: false })
  again.markTimes(times(125n, 135n, 145n), 3)
  t.ok(restarted(again).unclipped, 'what was marked since may reach into it')
  again.clip(undefined)
  t.same(again.dirty, [[140n * S, 160n * S]])
})

t.test('rows before the first bucket move where the source begins, and what is deleted there later is computed again', async (t) => {
  const rollup = computed(100n, 200n)
  rollup.markTimes(times(50n), 1)
  t.equal(rollup.from, 50n * S)
  rollup.begin([50n * S, 60n * S])
  rollup.done([50n * S, 60n * S], false)
  t.ok(rollup.mark(undefined, 60n * S))
  t.same(rollup.dirty, [[50n * S, 60n * S]])
})

t.test('a row at the very end of a bucket that is marked is of the next one', async (t) => {
  const rollup = computed(0n, 1000n)
  rollup.markTimes(times(105n, 110n, 300n), 3)
  t.same(rollup.dirty, [
    [100n * S, 120n * S],
    [300n * S, 310n * S],
  ])
})

t.test('rows from the watermark on mark nothing, wherever it lies between two halves of times', async (t) => {
  for (let until = 200n; until < 300n; until += 10n) {
    const rollup = computed(100n, until)
    t.notOk(rollup.markTimes(times(until, until + 1n, until + 2n, until + 3n), 4))
    t.same(rollup.dirty, [])
  }
})

t.test('of a range that changed those buckets are marked that were computed, whole', async (t) => {
  const marked = (start: bigint | undefined, end: bigint | undefined) => {
    const rollup = computed(100n, 200n)
    t.equal(rollup.from, 100n * S)
    return [rollup.mark(start, end), ...rollup.dirty.map(([first, last]) => [first / S, last / S])]
  }
  t.same(marked(50n * S, 120n * S), [true, [100n, 120n]], 'none before the first')
  t.same(marked(155n * S, 500n * S), [true, [150n, 200n]], 'nor from the watermark on')
  t.same(marked(undefined, undefined), [true, [100n, 200n]])
  t.same(marked(119n * S, 120n * S + 1n), [true, [110n, 130n]])
  t.same([marked(200n * S, undefined), marked(undefined, 100n * S)], [[false], [false]])
})

t.test('a repair moves no watermark, and what is lost does not come back', async (t) => {
  const rollup = computed(100n, 200n)
  rollup.begin([150n * S, 250n * S])
  rollup.done([150n * S, 250n * S], false)
  t.equal(rollup.until, 200n * S)
  rollup.lose(120n * S)
  rollup.lose(110n * S)
  t.equal(rollup.lost, 120n * S)
})

t.test('of a change with many buckets all are marked, in whatever order its rows are', async (t) => {
  const rollup = computed(0n, 1000n)
  rollup.markTimes(times(500n, 705n, 205n, 805n, 305n), 5, 1)
  t.same(rollup.dirty, [[200n * S, 810n * S]])
})

t.test('where changes are missing all may be dirty, also what came before the first bucket', async (t) => {
  const rollup = computed(100n, 200n)
  t.ok(rollup.markAll())
  t.same(rollup.dirty, [[FIRST_TIME, 200n * S]])
})

t.test('a repair of all moves the first bucket no further than to its first row', async (t) => {
  const rollup = computed(100n, 200n)
  rollup.markAll()
  const [all] = rollup.dirty
  rollup.begin(all)
  rollup.done([all[0], 70n * S], false, undefined)
  t.equal(rollup.from, 100n * S, 'nothing there')
  rollup.begin([70n * S, 200n * S])
  t.ok(rollup.mark(80n * S, 90n * S), 'what is being computed may have a row there')
  rollup.done([70n * S, 200n * S], false, 80n * S)
  t.equal(rollup.from, 80n * S)
  t.same(rollup.dirty, [[80n * S, 90n * S]])

  const none = new Rollup(definition, 64)
  none.empty(200n * S)
  t.ok(none.mark(undefined, undefined))
  none.begin(none.dirty[0])
  none.done([FIRST_TIME, 200n * S], false, undefined)
  t.match(none, { from: undefined, dirty: [] })
})

t.test('a first bucket that an earlier version took from a repair of all is looked for again', async (t) => {
  const before = { ...computed(100n, 200n).kept(), from: String(FIRST_TIME) }
  t.match(Rollup.restore(before, 64), { from: undefined, dirty: [[FIRST_TIME, 200n * S]] })
  t.match(Rollup.restore({ ...before, floor: String(150n * S) }, 64), { from: FIRST_TIME, dirty: [] }, 'from the floor on only: what lies before it stays')
})

t.test('raw data is held from what the state store says on, until that is behind', async (t) => {
  const rollup = computed(0n, 100n)
  t.equal(rollup.hold, undefined, 'nothing is in the store yet: all of it')
  rollup.saved(0n, rollup.floor)
  t.equal(rollup.hold, 0n)
  rollup.saved(rollup.need, rollup.floor)
  t.equal(rollup.hold, 100n * S)
  rollup.markTimes(times(15n), 1)
  t.equal(rollup.hold, 10n * S)
})

t.test('what came through a restart is in the store: no more than that is held, and what it knew was taken may go', async (t) => {
  const rollup = computed(0n, 100n)
  rollup.markTimes(times(45n), 1)
  rollup.raiseFloor(20n * S)
  const again = restarted(rollup)
  t.equal(again.hold, 40n * S)
  t.equal(again.taken(30n * S, 10n * S), 20n * S)
})

t.test('what retention takes is taken when it is known durably, and nothing that is needed', async (t) => {
  const rollup = computed(0n, 100n)
  rollup.saved(rollup.need, rollup.floor)
  t.equal(rollup.taken(50n * S, 20n * S), FIRST_TIME, 'not before the store has it')
  t.equal(rollup.floor, 20n * S, 'what is needed stays')
  rollup.saved(rollup.need, rollup.floor)
  t.equal(rollup.taken(50n * S, 20n * S), 20n * S)
  t.equal(rollup.taken(50n * S, undefined), 20n * S)
  t.equal(rollup.floor, 50n * S)
  t.match(rollup.kept(), { floor: String(50n * S), exact: true })
  const { exact: _, ...earlier } = rollup.kept()
  const former = Rollup.restore(earlier, 64)
  t.equal(former.exact, false, 'an earlier version did not say what it took')
  former.taken(90n * S, 60n * S)
  t.equal(former.floor, 90n * S)
})

t.test('what retention took while nobody asked is not repaired, whatever waits for that', async (t) => {
  const rollup = computed(100n, 200n)
  rollup.markTimes(times(105n, 155n), 2)
  rollup.clip(undefined)
  const again = restarted(rollup)
  const { version } = again
  again.meet(undefined, false)
  t.match(again, { version, floor: undefined, unclipped: false }, 'nothing')
  again.meet(140n * S, false)
  t.not(again.version, version, 'it is stored')
  t.ok(again.unclipped, 'and what waits is looked at, though nothing was marked')
  again.clip(undefined)
  t.same(again.dirty, [[150n * S, 160n * S]])
  const later = restarted(again)
  later.floor = undefined
  for (const before of [130n, 140n]) later.meet(before * S, false)
  t.equal(later.floor, undefined, 'what is known already')
  later.meet(160n * S, false)
  later.clip(undefined)
  t.match(later, { floor: 160n * S, dirty: [] }, 'what has gone since')
})

t.test('of a new rollup only what retention takes from then on counts', async (t) => {
  const rollup = new Rollup(definition, 64)
  const { version } = rollup
  rollup.meet(140n * S, true)
  t.equal(rollup.floor, undefined)
  t.not(rollup.version, version, 'it is stored')
  const again = restarted(rollup)
  again.meet(140n * S, false)
  t.equal(again.floor, undefined)
  again.meet(150n * S, false)
  t.equal(again.floor, 150n * S)
})
