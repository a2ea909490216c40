import t from 'tap'
import { Type } from 'typebox'
import { serializerCompiler } from './serialize.ts'

const written = (schema: unknown, value: unknown): unknown => JSON.parse(serializerCompiler({ schema })(value))

t.test('members that the schema does not name are left out, at every depth', async (t) => {
  const key = Type.Object({ name: Type.String(), expires: Type.Optional(Type.Integer()) })
  const schema = Type.Object({ keys: Type.Array(key), first: key })
  const one = { name: 'ci', hash: 'secret' }
  t.same(written(schema, { keys: [one, { ...one, expires: 7 }], first: one, cursor: 'x' }), {
    keys: [{ name: 'ci' }, { name: 'ci', expires: 7 }],
    first: { name: 'ci' },
  })
  t.same(written(Type.Array(key), [one]), [{ name: 'ci' }])
})

t.test('objects that are open keep all, and so does what is no object', async (t) => {
  const open = Type.Object({ name: Type.String() }, { additionalProperties: true })
  t.same(written(open, { name: 'a', more: 1 }), { name: 'a', more: 1 })
  t.same(written(Type.Record(Type.String(), Type.Unknown()), { a: { b: 1 } }), { a: { b: 1 } })
  t.same(written(Type.Object({ at: Type.Unknown() }), { at: { b: [1] } }), { at: { b: [1] } })
  t.equal(written(Type.Object({}), null), null)
  t.same(written(Type.Object({ a: Type.Object({ b: Type.Integer() }) }), { a: null }), { a: null })
  t.same(written(Type.Array(Type.Object({})), 'text'), 'text')
})

t.test('what writes itself does', async (t) => {
  t.equal(written(Type.Object({ at: Type.String() }), { toJSON: () => 'itself' }), 'itself')
})
