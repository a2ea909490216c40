import { compileRegex } from 'svcdb/lib/regex'
import t from 'tap'
import { compileMatchers } from './matchers.ts'

t.test('an absent tag reads as the empty string, all conditions hold', async (t) => {
  const tags: Record<string, string> = { host: 'a', dc: 'eu' }
  const holds = (...matchers: Parameters<typeof compileMatchers>[0]) => compileMatchers(matchers)((k) => tags[k])
  t.ok(holds())
  t.ok(holds({ tag: 'host', op: '=', value: 'a' }, { tag: 'dc', op: '=~', value: 'e.' }))
  t.notOk(holds({ tag: 'host', op: '=', value: 'a' }, { tag: 'dc', op: '!~', value: 'e.' }))
  t.ok(holds({ tag: 'rack', op: '=', value: '' }))
  t.ok(holds({ tag: 'rack', op: '=~', value: '.*' }))
  t.notOk(holds({ tag: 'rack', op: '=~', value: '.+' }))
  t.notOk(holds({ tag: 'rack', op: '!=', value: '' }))
})

t.test('expressions in RE2 syntax', async (t) => {
  const cases: [string, string, boolean][] = [
    ['a', 'ab', false],
    ['a|b', 'b', true],
    ['a|b', 'bc', false],
    ['a.b', 'a\nb', true],
    ['', '', true],
    ['.', '😀', true],
    ['(?i)abc', 'ABC', true],
    ['(?i:a)b', 'Ab', true],
    ['(?i:a)b', 'AB', false],
    ['((?i)a)b', 'Ab', true],
    ['((?i)a)b', 'AB', false],
    ['(?-s)a.b', 'a\nb', false],
    ['(?P<x>a)+', 'aaa', true],
    ['[[:alpha:]_]+', 'ab_', true],
    ['[[:digit:]]', 'a', false],
    ['[]a]+', ']a', true],
    ['[^]a]', 'b', true],
    ['node\\-1\\:9100', 'node-1:9100', true],
    ['\\Qa.b\\E+', 'a.bb', true],
    ['\\Qa.b\\E', 'axb', false],
    ['\\Aab\\z', 'ab', true],
    ['\\pL+', 'äb', true],
    ['\\p{Greek}', 'λ', true],
    ['\\x{1F600}', '😀', true],
    ['\\x41', 'A', true],
    ['a{2}', 'aa', true],
    ['a{,2}', 'a{,2}', true],
    ['{x}', '{x}', true],
    ['\\s', '\u00a0', false],
    ['[\\s]', '\t', true],
    ['a\\.b', 'axb', false],
    ['\\_', '_', true],
    ['\\101\\60', 'A0', true],
    ['[\\d-z]+', '4-z', true],
    ['[\\S]', '\v', true],
    ['[\\S]', ' ', false],
    ['\\p{^Greek}', 'λ', false],
    ['\\P{^Greek}', 'λ', true],
    ['\\p{Any}', 'a', true],
    ['a(?i)b|c', 'aB', true],
    ['(?i)a|(?-i)b|c', 'A', true],
    ['(?i)a|(?-i)b|c', 'C', false],
    ['(?s-i)(?i)a|b|c', 'C', true],
    ['a(?i)b|c', 'C', true],
    ['a(?i)b|c', 'AB', false],
    ['(a(?i)b|c)d', 'CD', false],
    ['(?U)a+', 'aa', true],
    ['\\pL{2}', 'äb', true],
    ['^+(?)a\\b*$?', 'a', true],
  ]
  for (const [pattern, value, expected] of cases) t.equal(compileRegex(pattern).test(value), expected, `${pattern} on ${JSON.stringify(value)}`)
  for (const pattern of ['(', ')', 'a**', '[a', '(?=a)', '(?!a)', '(?<=a)b', '(a)\\1', '\\', '\\k<x>', '[b-a]', 'x'.repeat(20_000)]) {
    t.throws(() => compileRegex(pattern), { code: 'BAD_REQUEST', message: /^cannot read regular expression "/ }, pattern.slice(0, 20))
  }
})
