import t from 'tap'
import { compileRegex } from './regex.ts'

t.test('groups are read only where they are wanted', async (t) => {
  t.same([...(compileRegex('(a)(?:b)((?i)c)', true).exec('abC') ?? [])], ['abC', 'a', 'C'])
  t.same({ ...compileRegex('(?P<first>.)(?<rest>.*)', true).exec('xyz')?.groups }, { first: 'x', rest: 'yz' })
  t.same([...(compileRegex('(a)(?P<n>b)').exec('ab') ?? [])], ['ab'])
})

t.test('the whole text has to match, newlines included', async (t) => {
  t.ok(compileRegex('a.b').test('a\nb'))
  t.notOk(compileRegex('a|b').test('ab'))
  t.throws(() => compileRegex('(?=a)', true), { code: 'BAD_REQUEST', message: 'cannot read regular expression "(?=a)": "(?=" is not supported' })
})
