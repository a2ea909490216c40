import t from 'tap'
import { Labels } from './labels.ts'

t.test('keys tell label sets apart, whatever is in their texts', async (t) => {
  const sets: Record<string, string>[] = [{ a: 'x', b: 'y' }, { a: 'x\xffb\xffy' }, { 'a\xffx\xffb': 'y' }, { '["a","x': '"]' }]
  t.equal(new Set(sets.map((set) => Labels.of(set).key)).size, sets.length)
  t.equal(Labels.of({ b: 'y', a: '\xff' }).key, Labels.of({ a: '\xff', b: 'y' }).key)
})
