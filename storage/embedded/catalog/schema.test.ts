import { SvcError } from 'svcdb/lib/errors'
import t from 'tap'
import { NamespaceGate } from '../../common/namespace-gate.ts'
import type { Definitions } from '../wal/record.ts'
import { describe, type Measurement, Schema, type Undo } from './schema.ts'

/** A write that adds fields, as admission does it. */
function write(
  schema: Schema,
  name: string,
  fields: string[],
  type: 'float64' | 'int64' = 'float64',
  namespace = '',
): { definitions: Definitions; undo(): void } {
  const definitions: Definitions = {}
  const undo: Undo = []
  const measurement = schema.resolve(namespace, name)
  schema.keep(measurement, definitions, undo)
  for (const field of fields) if (!measurement.fields.has(field)) schema.addField(measurement, field, type, 0, definitions, undo)
  schema.settle(measurement, definitions, undo)
  return {
    definitions,
    undo: () => {
      for (const step of undo.reverse()) step()
    },
  }
}

const names = (schema: Schema) => schema.list('').map((measurement) => [measurement.name, describe(measurement, []).fields.map(({ name }) => name)])

t.test('what a write defines is seen by writes at once, and by all others when its record is durable', async (t) => {
  const schema = new Schema()
  const first = write(schema, 'm', ['v', 'w'])
  t.same(names(schema), [])
  schema.confirm(first.definitions)
  t.same(names(schema), [['m', ['v', 'w']]])
  const second = write(schema, 'm', ['x'])
  const other = write(schema, 'n', ['v'])
  const [m, n] = ['m', 'n'].map((name) => schema.resolve('', name))
  t.ok(m.fields.has('x'))
  t.same(
    m.def().fields.map(({ name }) => name),
    ['v', 'w'],
    'for the catalog and the engine threads',
  )
  t.same(
    m.home?.def().fields.map(({ name }) => name),
    ['v', 'w'],
    'for memtables',
  )
  t.same(n.def(), { id: 1, namespace: '', name: 'n', fields: [], tables: [] })
  t.notOk(n.home?.durable)
  schema.confirm(second.definitions)
  schema.confirm(other.definitions)
  t.same(names(schema), [
    ['m', ['v', 'w', 'x']],
    ['n', ['v']],
  ])
  t.same(
    m.home?.def().fields.map(({ id, name }) => [id, name]),
    [
      [0, 'v'],
      [1, 'w'],
      [2, 'x'],
    ],
  )
})

t.test('writes that fail together are undone newest first, and leave nothing', async (t) => {
  const schema = new Schema()
  schema.confirm(write(schema, 'm', ['v']).definitions)
  const before = JSON.stringify([schema.find('', 'm')?.def(), schema.tables.map((table) => table?.def())])
  const failed = [
    ['m', ['w1', 'w2']],
    ['n', ['a']],
    ['m', ['w3']],
    ['n', ['a', 'b']],
    ['o', ['v']],
  ] as const
  const writes = failed.map(([name, fields]) => write(schema, name, [...fields]))
  for (const { undo } of writes.reverse()) undo()
  schema.releaseProvisional()
  t.equal(schema.count(''), 1)
  const tables = schema.tables.filter((table) => table !== undefined)
  t.equal(JSON.stringify([schema.find('', 'm')?.def(), tables.map((table) => table.def())]), before)
  t.equal(schema.find('', 'm')?.list.length, 1)
  t.same(schema.find('', 'm')?.tables, tables)
  t.equal([...schema.sharedOnes].length, 1)
  const again = write(schema, 'm', ['y'], 'int64')
  schema.confirm(again.definitions)
  const m = schema.resolve('', 'm')
  t.same(m.fields.get('y'), { id: 1, name: 'y', type: 'int64', scale: 0, column: 'y' })
  t.equal(m.home?.id, 4, 'numbers of tables go on')
  t.equal(write(schema, 'p', ['v']).definitions.measurements?.[0].id, 1, 'those of measurements at the end, which nothing durable names, are free again')
})

t.test('a measurement whose first write and drop both fail keeps its number', async (t) => {
  const schema = new Schema()
  const { undo } = write(schema, 'm', ['v'])
  const measurement = schema.resolve('', 'm')
  schema.hide(measurement)
  undo()
  schema.releaseProvisional() // between the two answers
  schema.reveal(measurement)
  const other = write(schema, 'other', ['v'])
  t.not(other.definitions.measurements?.[0].id, measurement.id)
  t.equal(schema.any(measurement.id), measurement)
  schema.releaseProvisional()
  t.equal(schema.find('', 'm'), undefined, 'and goes when nobody has written it since')
})

t.test('a name goes with the measurement that has it: not with one that was dropped before', async (t) => {
  const schema = new Schema()
  schema.confirm(write(schema, 'm', ['v']).definitions)
  const dropped = schema.resolve('', 'm')
  schema.hide(dropped)
  t.same(names(schema), [])
  schema.confirm(write(schema, 'm', ['w']).definitions)
  const late = write(schema, 'late', ['v'])
  schema.hide(schema.resolve('', 'late'))
  // Its record is before that of the drop.
  schema.confirm(late.definitions)
  schema.remove(dropped, 1)
  t.same(names(schema), [['m', ['w']]])
  t.not(schema.find('', 'm'), dropped)
  t.equal(schema.find('', 'late'), undefined)
  schema.remove(schema.find('', 'm') as Measurement, 1)
  t.ok(schema.owns(''), 'what can be restored is of the namespace')
  schema.remove(schema.any(2) as Measurement, 1)
  t.notOk(schema.owns(''))
})

t.test('what a decoder has begun under the name of a dropped measurement is looked up again when that comes back', async (t) => {
  const schema = new Schema()
  schema.confirm(write(schema, 'm', ['v']).definitions)
  const dropped = schema.resolve('', 'm')
  schema.hide(dropped)
  const begun = schema.resolve('', 'm')
  t.equal(schema.byId[begun.id], begun)
  schema.reveal(dropped)
  t.equal(schema.find('', 'm'), dropped)
  t.equal(schema.byId[begun.id], undefined)
})

t.test('fields are counted while they can be there, and by a start as before it', async (t) => {
  const gate = new NamespaceGate({ maxSeriesCardinality: 100, maxFields: 100 })
  gate.guard = { refusal: () => undefined, bounds: () => ({ maxSeries: 0, maxMeasurements: 0 }), exceeded: () => new SvcError('RATE_LIMITED', '') }
  /** All, and those of each namespace by what it has left of its three quarters. */
  const counts = (schema: Schema) => [schema.fields, ...['a', 'b'].map((namespace) => 75 - schema.fieldsLeft(namespace))]
  const schema = new Schema(gate)
  const writes = [
    write(schema, 'm', ['v', 'w', 'x'], 'float64', 'a'),
    write(schema, 'n', ['v'], 'float64', 'a'),
    write(schema, 'm', ['v', 'w'], 'float64', 'b'),
  ]
  t.same(counts(schema), [6, 4, 2], 'those of writes on their way too')
  for (const { definitions } of writes) schema.confirm(definitions)
  const failed = [write(schema, 'm', ['y'], 'float64', 'a'), write(schema, 'o', ['v', 'w'], 'float64', 'b')]
  t.same(counts(schema), [9, 5, 4])
  for (const { undo } of failed.reverse()) undo()
  t.same(counts(schema), [6, 4, 2])
  const dropped = schema.find('a', 'm') as Measurement
  schema.hide(dropped)
  t.same(counts(schema), [6, 4, 2], 'a dropped measurement may come back')

  const restored = new Schema(gate)
  const tables = schema.tables.flatMap((table) => (table === undefined ? [] : [table.def()]))
  restored.restore(
    tables,
    [0, 1, 2].map((id) => (schema.any(id) as Measurement).def()),
  )
  t.same(counts(restored), [6, 4, 2], 'from the catalog')
  const replayed = new Schema(gate)
  for (const again of [replayed, replayed, restored]) {
    for (const { definitions } of writes) again.apply(definitions)
    t.same(counts(again), [6, 4, 2], 'from the log, once')
    t.same(
      again.tables.flatMap((table) => table?.def() ?? []),
      tables,
    )
  }
  schema.remove(dropped, 1)
  t.same(counts(schema), [3, 1, 2])
})

t.test('a field that an earlier server stored for a write that failed gives way to what the log says', async (t) => {
  const field = (id: number, name: string, type: 'float64' | 'int64') => ({ id, name, type, scale: 0, column: name })
  const [v, w, x] = [field(0, 'v', 'float64'), field(1, 'w', 'float64'), field(2, 'x', 'float64')]
  const stored = { id: 0, namespace: '', name: 'm', fields: [v, w, x], tables: [0] }
  for (const [found, want] of [
    [[field(2, 'y', 'int64')], ['v', 'w', 'y']],
    [
      [field(2, 'y', 'int64'), field(3, 'x', 'float64')],
      ['v', 'w', 'y', 'x'],
    ],
    [[field(2, 'x', 'int64')], ['v', 'w', 'x']],
    [[x], ['v', 'w', 'x']],
  ] as const) {
    const schema = new Schema()
    schema.restore([{ id: 0, measurement: 0, fields: [v, w, x] }], [stored])
    schema.apply({ fields: found.map((one) => ({ measurement: 0, field: one })) })
    const m = schema.resolve('', 'm')
    t.same(
      describe(m, []).fields.map(({ name }) => name),
      want,
    )
    t.same(m.home?.fields, m.durableFields)
    for (const one of found) t.equal(m.fields.get(one.name)?.type, one.type)
    t.equal(new Set(m.list.map(({ id }) => id)).size, want.length, 'each number once')
  }
})
