import t from 'tap'
import { seeded } from '../random/index.ts'
import { compileRegex } from './regex.ts'
import { shapeOf } from './shape.ts'
import { mayTakeLong, TextPattern } from './text-pattern.ts'

t.test('common shapes are matched without an expression, and as one would', async (t) => {
  const texts = [
    '',
    'a',
    'b',
    'ab',
    'ba',
    'aab',
    'a.b',
    'a\nb',
    'foo',
    'foobar',
    'barfoo',
    'xfoox',
    'web-01',
    'web-03:9100',
    '😀',
    'a😀b',
    'ab😀',
    'aXbXc',
    'abcabc',
  ]
  const patterns = [
    '',
    'a',
    'a|b',
    'a|',
    '.*',
    '.+',
    'foo.*',
    '.*foo',
    '.*foo.*',
    '.+foo.+',
    'foo.+',
    'a.*b',
    'a.+b',
    'a.*b.*c',
    '.*a.*b.*',
    'a\\.b',
    'a[.]b',
    'a.*a',
    '(a|b)',
    '(?:a|b)b',
    'web-(01|02|03)',
    'web-(01|03)(|:9100)',
    '(foo|a).*',
    '((a|b)|foo)',
    '^foo.*$',
    '^a$|^b$',
    '😀',
    'ab😀.*',
    '.*😀.*',
  ]
  for (const pattern of patterns) {
    t.ok(shapeOf(pattern), `${pattern} is a shape`)
    const regex = compileRegex(pattern)
    const own = new TextPattern(pattern)
    t.strictSame(
      texts.filter((text) => own.test(text)),
      texts.filter((text) => regex.test(text)),
      pattern,
    )
    t.strictSame(
      [...own.flags(texts)],
      texts.map((text) => (regex.test(text) ? 1 : 0)),
    )
  }
})

t.test('random patterns mean the same with and without shapes', async (t) => {
  const random = seeded(7)
  const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)]
  const text = (parts: readonly string[], most: number): string => Array.from({ length: Math.floor(random() * most) }, () => pick(parts)).join('')
  const atoms = ['a', 'b', 'ab', '.*', '.+', '|', '(', ')', '(?:', '\\.', '[.]', '.', '^', '$', 'a*', 'b?', '[ab]', '\\d', '{', '😀']
  let shapes = 0
  for (let round = 0; round < 20_000; round++) {
    const pattern = text(atoms, 7)
    let regex: RegExp
    try {
      regex = compileRegex(pattern)
    } catch {
      if (shapeOf(pattern) !== undefined) t.fail(`${pattern} is a shape, but no expression`)
      continue
    }
    if (shapeOf(pattern) === undefined) continue
    shapes++
    const own = new TextPattern(pattern)
    const value = text(['a', 'b', '.', '😀', '\n', 'x'], 8)
    if (own.test(value) !== regex.test(value)) t.fail(`${pattern} on ${JSON.stringify(value)}: expected ${regex.test(value)}`)
  }
  t.ok(shapes > 3000, `${shapes} shapes`)
})

t.test('a list of texts is known as one', async (t) => {
  t.strictSame([...(new TextPattern('a|(b|c)d|e\\.f').literals ?? [])], ['a', 'bd', 'cd', 'e.f'])
  for (const pattern of ['a.*', 'a+', '(?i)a', 'a|b.+']) t.equal(new TextPattern(pattern).literals, undefined, pattern)
  t.throws(() => new TextPattern('('), { code: 'BAD_REQUEST' })
  t.throws(() => new TextPattern('x'.repeat(20_000)), { code: 'BAD_REQUEST' })
})

t.test('which expressions can take long', async (t) => {
  const judged = (pattern: string): boolean => mayTakeLong(compileRegex(pattern).source)
  for (const pattern of [
    '(a+)+',
    '(a|a)*b',
    '(a|ab)(c|bcd)',
    'a*a*',
    '(a?){30}a{30}',
    'a?a?',
    '(?:[a-z]+)*x',
    '(\\d+)*',
    '.*[ab]{2,}',
    '((a)+)+',
    '(a|b){3}',
    'x{1,9}y{1,9}',
  ])
    t.ok(judged(pattern), pattern)
  for (const pattern of [
    'a+',
    'web-[0-9]+',
    '\\d{3}',
    '(a)+',
    '[(|+*)]+',
    '\\(a\\)+',
    'a+|b',
    '(?i)abc',
    '\\x{1F600}+',
    '\\p{Greek}+',
    'a{2}b{3}',
    '[[:digit:]]+',
    '(?P<x>a)+',
  ])
    t.notOk(judged(pattern), pattern)
})

t.test('what takes too long is interrupted, and says so', async (t) => {
  const bad = `${'a'.repeat(60)}b`
  for (const pattern of ['(a+)+$', '(a|a)*', '(a|aa)+', '(a?){50}a{55}[c]', '((a*)*)*']) {
    const own = new TextPattern(pattern, 50)
    t.throws(() => own.flags(['a', bad]), { code: 'BAD_REQUEST', message: `cannot evaluate regular expression "${pattern}": it takes too long` }, pattern)
    t.throws(() => own.test('a'), { code: 'BAD_REQUEST' }, 'its time is spent')
  }
  const good = new TextPattern('(a+)+', 10_000) // a busy machine takes its time
  t.strictSame([...good.flags(['a', 'aaa', 'b', ''])], [1, 1, 0, 0], 'what is fast enough is answered')
  t.ok(good.test('aa'), 'more than once')
})
