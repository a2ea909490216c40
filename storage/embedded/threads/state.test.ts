/** An engine thread's picture of definitions, deletes and segments: the sum of the events it was sent. Rows: ../memtable/snapshot-parts.test.ts. */
import t from 'tap'
import type { FieldDef } from './definitions.ts'
import type { StateEvent } from './messages.ts'
import type { Tombstone } from './removals.ts'
import type { SegmentMeta } from './segment-entry.ts'
import { Shared } from './shared-header.ts'
import { WorkerState } from './state.ts'

function stateOf(...events: StateEvent[]): WorkerState {
  const state = new WorkerState(new Int32Array(new SharedArrayBuffer(Shared.SLOTS * 4)))
  for (const event of events) state.apply(event)
  return state
}

const field = (id: number, name: string): FieldDef => ({ id, name, column: name, type: 'float64', scale: 0 })
const measurement = (id: number, name: string, fields: FieldDef[], tables = [id], namespace = 'a'): StateEvent => ({
  kind: 'measurement',
  def: { id, namespace, name, fields, tables },
})
const table = (id: number, of: number, fields: FieldDef[]): StateEvent => ({ kind: 'table', def: { id, measurement: of, fields } })
const names = (fields: readonly { name: string }[] = []) => fields.map(({ name }) => name).join()
const schemaOf = (state: WorkerState, namespace = 'a') => state.schema(namespace).map(({ name, fields }) => `${name}: ${names(fields)}`)

t.test('fields that come are behind the others, in the measurement, in its own tables and in what is shown', async (t) => {
  const [v, w, x] = ['v', 'w', 'x'].map((name, id) => field(id, name))
  const state = stateOf(table(0, -1, [v]), table(1, 7, [v, w]), measurement(7, 'm', [v, w], [0, 1]), measurement(8, 'n', [v], [0]))
  t.same(schemaOf(state), ['m: v,w', 'n: v'])
  const begun = state.measurement('a', 'm')
  state.apply({ kind: 'fields', measurement: 7, fields: [x] })
  t.same(schemaOf(state), ['m: v,w,x', 'n: v'])
  t.equal(names(state.measurements.get(7)?.fields), 'v,w,x')
  t.same(
    [0, 1].map((id) => names(state.tables.get(id)?.fields)),
    ['v', 'v,w,x'],
    'the table that is shared stays as it is',
  )
  t.equal(names(begun?.fields), 'v,w', 'a job keeps the definition that it began with')
  state.apply({ kind: 'fields', measurement: 9, fields: [x] })
  t.same(schemaOf(state), ['m: v,w,x', 'n: v'], 'one that is gone')
})

t.test('a name is that of the measurement which came last under it, and goes with that one alone', async (t) => {
  const v = field(0, 'v')
  const state = stateOf(measurement(1, 'm', [v]), measurement(2, 'm', [v, field(1, 'w')]), measurement(3, 'm', [v], [3], 'b'))
  t.same(schemaOf(state), ['m: v,w'])
  state.apply({ kind: 'measurement-gone', id: 1 })
  t.equal(state.measurement('a', 'm')?.id, 2)
  t.equal(state.measurements.has(1), false)
  state.apply({ kind: 'measurement-gone', id: 2 })
  t.same([schemaOf(state), schemaOf(state, 'b')], [[], ['m: v']])
  t.equal(state.measurement('a', 'm'), undefined)
  state.apply({ kind: 'table-gone', id: 2 })
  t.ok(state.goneTables.has(2))
})

t.test('a tombstone that comes again takes the place of the one of its number', async (t) => {
  const tombstone = (id: number, of: number, end: bigint): Tombstone => ({ id, measurement: of, sequence: 1, series: null, start: 0n, end })
  const state = stateOf({ kind: 'tombstones', added: [tombstone(1, 7, 10n), tombstone(2, 7, 20n), tombstone(3, 8, 30n)], removed: [] })
  const ends = () => [7, 8].map((of) => state.tombstones.get(of)?.map(({ end }) => Number(end)))
  const before = state.tombstones
  state.apply({ kind: 'tombstones', added: [tombstone(2, 7, 25n)], removed: [] })
  t.same(ends(), [[10, 25], [30]])
  state.apply({ kind: 'tombstones', added: [], removed: [1, 3] })
  t.same(ends(), [[25], undefined])
  t.equal(before.get(7)?.length, 2, 'a snapshot keeps those that it began with')
})

t.test('segments go from the table that they are of, in the order of their sequences', async (t) => {
  const segment = (id: number, of: number, sequence: number) => ({ id, table: of, sequence }) as SegmentMeta
  const change = (added: SegmentMeta[], removed: number[]): StateEvent => ({ kind: 'segments', added, removed, droppedMemtable: -1 })
  const state = stateOf(change([segment(4, 0, 3), segment(1, 0, 1), segment(2, 0, 1), segment(3, 1, 2)], []))
  const ids = () => [0, 1].map((of) => state.segments.get(of)?.map(({ id }) => id))
  t.same(ids(), [[1, 2, 4], [3]])
  const other = state.segments.get(1)
  state.apply(change([segment(5, 0, 1)], [1, 2]))
  t.same(ids(), [[5, 4], [3]])
  t.equal(state.segments.get(1), other, 'a list that stays the same is the same')
  state.apply(change([], [3, 4]))
  t.same(ids(), [[5], undefined])
})
