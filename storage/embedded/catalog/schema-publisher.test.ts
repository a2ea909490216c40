/** What each record's definitions mark for the catalog and tell the engine threads: what is not marked is gone when the log of it goes. */
import t from 'tap'
import type { Publisher } from '../threads/publishing/publisher.ts'
import type { Definitions } from '../wal/record.ts'
import { Schema } from './schema.ts'
import { SchemaPublisher } from './schema-publisher.ts'
import { Unstored } from './unstored.ts'

function stage() {
  const schema = new Schema()
  const unstored = new Unstored()
  const events: { kind: string; def?: { id: number; fields: { name: string }[]; tables?: number[] }; measurement?: number; fields?: { name: string }[] }[] = []
  const publisher = new SchemaPublisher(schema, unstored, { publish: (event: never) => void events.push(event) } as unknown as Publisher)
  /** As admission does it. */
  const define = (name: string, fields: readonly string[]): Definitions => {
    const definitions: Definitions = {}
    const measurement = schema.resolve('', name)
    schema.keep(measurement, definitions, [])
    for (const field of fields) schema.addField(measurement, field, 'float64', 0, definitions, [])
    schema.settle(measurement, definitions, [])
    schema.confirm(definitions)
    return definitions
  }
  /** Publishes, and says what that has told and marked. */
  const told = (definitions: Definitions) => {
    publisher.publish(definitions)
    const names = (fields: { name: string }[] = []) => fields.map(({ name }) => name).join()
    const lines = events.splice(0).map(({ kind, def, measurement, fields }) => {
      if (def === undefined) return `${kind} of ${measurement}: ${names(fields)}`
      return `${kind} ${def.id}: ${names(def.fields)}${def.tables === undefined ? '' : ` in ${def.tables}`}`
    })
    const marks = [...unstored.copy()].flatMap(([kind, ids]) => [...ids.keys()].map((id) => `${kind} ${id}`)).sort()
    unstored.settle(unstored.copy())
    return { lines, marks }
  }
  return { schema, define, told }
}

t.test('definitions are told once, whole or as what is new, and marked with all that they change', async (t) => {
  const { define, told } = stage()
  t.same(told(define('m', ['v'])), { lines: ['table 0: v', 'measurement 0: v in 0'], marks: ['measurement 0', 'table 0'] }, 'in a shared table')
  t.same(told(define('n', ['v'])), { lines: ['measurement 1: v in 0'], marks: ['measurement 1'] }, 'in the same one')
  const own = { lines: ['table 1: v,w', 'measurement 0: v,w in 0,1'], marks: ['measurement 0', 'table 1'] }
  t.same(told(define('m', ['w'])), own, 'a second field makes a table of its own')
  t.same(told(define('m', ['x', 'y'])), { lines: ['fields of 0: x,y'], marks: ['measurement 0', 'table 1'] }, 'further ones alone')
  t.same(told({}), { lines: [], marks: [] })
})

t.test('what was dropped for good while its record was on its way is told no more', async (t) => {
  const { schema, define, told } = stage()
  told(define('m', ['v', 'w']))
  const late = define('m', ['x'])
  const first = define('n', ['v', 'w'])
  for (const name of ['m', 'n']) schema.remove(schema.resolve('', name), 1)
  t.same(told(late).lines, [])
  t.same(told(first).lines, [])
})

t.test('what can still be restored is told', async (t) => {
  const { schema, define, told } = stage()
  told(define('m', ['v', 'w']))
  const late = define('m', ['x'])
  schema.hide(schema.resolve('', 'm'))
  t.same(told(late), { lines: ['fields of 0: x'], marks: ['measurement 0', 'table 0'] })
})
