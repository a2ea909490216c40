import { seeded } from 'svcdb/lib/random'
import { compileRegex } from 'svcdb/lib/regex'
import t from 'tap'
import { checkRegex, matchesEmpty } from './regex-syntax.ts'

t.test('patterns that are good', async (t) => {
  const patterns = [
    ...[
      '',
      'a|b',
      '(?i)a|b',
      '(?P<x>a)(?P<x>b)',
      '(?<x>a)',
      '[]a]',
      '[^]a]',
      '[[:alpha:]_-]',
      '[\\d-z]',
      'a{2,}',
      'a{,2}',
      'a{1',
      '{',
      '}',
      ']',
      '(?)',
      '(?i-s:a)',
    ],
    ...['\\Q(\\E+', '\\pL{2}', '\\p{Greek}', '\\P{^Lu}', '\\x{1F600}', '\\101', '\\0', '^*', '$?', '\\b+', 'a??', '(a{31}){32}', '[a\\]]', '\\-', '[+--]'],
    ...['a\\ b', '[\\ \\\t]', '\\\n', '\\\x7f'],
  ]
  for (const pattern of patterns) t.equal(checkRegex(pattern), undefined, pattern)
})

t.test('what is wrong with others', async (t) => {
  const expected = {
    '(a': 'missing closing ): `(a`',
    'a)': 'unexpected ): `a)`',
    '[a': 'missing closing ]: `[a`',
    'x[]': 'missing closing ]: `[]`',
    '*a': 'missing argument to repetition operator: `*`',
    '(+?)': 'missing argument to repetition operator: `+?`',
    'a|{2}': 'missing argument to repetition operator: `{2}`',
    'a**': 'invalid nested repetition operator: `**`',
    'a+?{2}': 'invalid nested repetition operator: `+?{2}`',
    'a{1001}': 'invalid repeat count: `{1001}`',
    'a{3,2}': 'invalid repeat count: `{3,2}`',
    '(a{100}){11}': 'invalid repeat count: `{11}`',
    '[b-a]': 'invalid character class range: `b-a`',
    '[a-\\x20]': 'invalid character class range: `a-\\x20`',
    '[[:nope:]]': 'invalid character class range: `[:nope:]`',
    '\\p{Nope}': 'invalid character class range: `\\p{Nope}`',
    '\\p{L': 'invalid character class range: `\\p{L`',
    '\\8': 'invalid escape sequence: `\\8`',
    '\\xg': 'invalid escape sequence: `\\xg`',
    '\\x{110000}': 'invalid escape sequence: `\\x{110000`',
    '[\\z]': 'invalid escape sequence: `\\z`',
    '\\é': 'invalid escape sequence: `\\é`',
    'a\\': 'trailing backslash at end of expression: ``',
    '(?=a)': 'invalid or unsupported Perl syntax: `(?=`',
    '(?<!a)': 'invalid named capture: `(?<!a)`',
    '(?P<a-b>c)': 'invalid named capture: `(?P<a-b>`',
    '(?i': 'invalid or unsupported Perl syntax: `(?i`',
  }
  for (const [pattern, cause] of Object.entries(expected)) t.equal(checkRegex(pattern), `error parsing regexp: ${cause}`, pattern)
})

t.test('what only the engine refuses is told in its words', async (t) => {
  t.match(checkRegex('[[:^alpha:]]'), /^error parsing regexp: ./)
})

t.test('whether the empty text matches', async (t) => {
  t.ok(matchesEmpty('a*'))
  t.notOk(matchesEmpty('a+'))
  const random = seeded(11)
  const pick = (items: readonly string[]): string => items[Math.floor(random() * items.length)]
  const ITEMS = [
    ...['a', 'b', '.', '^', '$', '\\b', '\\B', '\\A', '\\z', '\\d', '\\Q\\E', '\\Qa\\E', '\\Qab\\E', '[a]', '[^]a]', '[[:digit:]]', '(?i)', '\\pL'],
    ...['*', '+', '?', '*?', '{0}', '{0,2}', '{1,2}', '{2}', '{', '|', '|', '(', '(', '(?:', '(?i:', '(?P<x>', ')', ')', ')'],
  ]
  let good = 0
  for (let round = 0; round < 20_000; round++) {
    const pattern = Array.from({ length: 1 + Math.floor(random() * 7) }, () => pick(ITEMS)).join('')
    if (checkRegex(pattern) !== undefined) continue
    good++
    const expected = compileRegex(pattern).test('')
    if (matchesEmpty(pattern) !== expected) t.equal(matchesEmpty(pattern), expected, pattern)
  }
  t.ok(good > 3000, `${good} patterns of seed 11`)
})

t.test('a pattern is not tried to find that out', async (t) => {
  t.notOk(matchesEmpty('(a*|b*|){60}x'))
  t.ok(matchesEmpty('(a*|b*|){60}'))
})
