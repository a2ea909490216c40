import t from 'tap'
import { PerNamespace } from './per-namespace.ts'

t.test('a value is made once, and anew when others have been used since', async (t) => {
  const made: string[] = []
  const values = new PerNamespace(2, (namespace) => {
    made.push(namespace)
    return { namespace }
  })
  const first = values.get('a')
  values.get('b')
  t.equal(values.get('a'), first)
  values.get('c')
  t.equal(values.get('a'), first, 'b was used longest ago')
  t.not(values.get('b'), undefined)
  t.strictSame(made, ['a', 'b', 'c', 'b'])
})
