import t from 'tap'
import { Labels } from './labels.ts'

t.test('keys tell label sets apart, whatever is in their texts', async (t) => {
  const sets = [{ a: 'x', b: 'y' }, { a: 'x\xffb\xffy' }, { 'a\xffx\xffb': 'y' }, { '["a","x': '"]' }].map(
    (set) => Labels.of(set as Record<string, string>).key,
  )
  t.equal(new Set(sets).size, sets.length)
  t.equal(Labels.of({ b: 'y', a: '\xff' }).key, Labels.of({ a: '\xff', b: 'y' }).key)
})
