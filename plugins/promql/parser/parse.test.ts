import { readFileSync } from 'node:fs'
import t from 'tap'
import type { BinaryExpr, Expr, MatrixSelector, SubqueryExpr, VectorSelector } from '../ast.ts'
import { parse, parseSelector } from './parse.ts'
import { lineColumn, ParseError } from './parse-error.ts'
import { fuzz } from './parser.fuzz.ts'
import { print } from './print.ts'

/** Pairs of lines: a query, and what is expected of it, indented. */
function cases(file: string): [query: string, expected: string][] {
  const lines = readFileSync(new URL(`./testcases/${file}`, import.meta.url), 'utf8').split('\n')
  return Array.from({ length: Math.floor(lines.length / 2) }, (_, i) => [lines[2 * i], lines[2 * i + 1].slice(2)])
}

function failure(query: string): string {
  try {
    return `parsed: ${print(parse(query))}`
  } catch (error) {
    if (!(error instanceof ParseError)) throw error
    return error.message
  }
}

const clean = (expr: Expr): unknown => JSON.parse(JSON.stringify(expr, (key, value) => (key === 'pos' ? undefined : value)))

for (const file of ['syntax-errors.txt', 'type-errors.txt']) {
  t.test(`texts of ${file}`, async (t) => {
    for (const [query, expected] of cases(file)) t.equal(failure(query), expected, query)
  })
}

t.test('texts that need more than a line', async (t) => {
  t.equal(failure(''), 'unknown position: parse error: no expression found in input')
  t.equal(failure(' # nothing\n'), '1:1: parse error: no expression found in input')
  t.equal(failure('requests +\n  errors errors'), '2:10: parse error: unexpected identifier "errors"')
  t.equal(failure('"é" + 1'), '1:1: parse error: binary expression must contain only scalar and instant vector types')
  t.equal(failure('²'), "1:1: parse error: unexpected character: '²'")
  t.equal(failure('vector(1) # é\n  and "é" ²'), "2:12: parse error: unexpected character: '²'", 'columns count bytes')
  t.equal(failure('"a\nb"'), '1:1: parse error: unterminated quoted string')
  t.equal(failure('"\ufffd"'), '1:1: parse error: invalid UTF-8 rune')
  t.equal(failure('(1 == # c\n 1)'), '1:4: parse error: comparisons between scalars must use BOOL modifier')
  t.match(new ParseError('a + b', { start: 4, end: 5 }, 'x'), { errorType: 'bad_data', pos: { start: 4, end: 5 } })
})

t.test('places in a query', async (t) => {
  t.equal(lineColumn('ab\ncd', 0), '1:1')
  t.equal(lineColumn('ab\ncd', 2), '1:3')
  t.equal(lineColumn('ab\ncd', 4), '2:2')
  t.equal(lineColumn('é😀x', 3), '1:7')
  t.equal(lineColumn('\n\nx', 2), '3:1')
  t.equal(lineColumn('{a="é"} / y', 10), '1:12')
  t.equal(lineColumn('ab', 3), 'invalid position')
})

t.test('numbers', async (t) => {
  const value = (query: string) => (parse(query) as { value: number }).value
  for (const [query, expected] of Object.entries({
    '0x1F': 31,
    '017': 15,
    '018': 18,
    '1_000.5': 1000.5,
    '1e3': 1000,
    '5m': 300,
    '-1h30m': -5400,
    '250ms': 0.25,
    iNf: Infinity,
  })) {
    t.equal(value(query), expected, query)
  }
  t.ok(Number.isNaN(value('nan')))
  t.ok(Object.is(value('-0'), -0))
  t.match(parse('5m'), { kind: 'number', duration: true })
  t.notOk('duration' in parse('300'))
})

t.test('strings', async (t) => {
  const value = (query: string) => (parse(query) as { value: string }).value
  t.equal(value('"a\\tb\\u00e9\\x41\\101\\""'), 'a\tbéAA"')
  t.equal(value("'it\\'s'"), "it's")
  t.equal(value('`a\\n`'), 'a\\n')
  t.equal(value('"\\xc3\\xa9"'), 'é', 'bytes make up characters')
  t.notOk(value('"\\xff"').isWellFormed())
  t.equal(print(parse('"a\\xff"')), '"a\\xff"')
})

t.test('precedence', async (t) => {
  const shape = (expr: Expr): string => {
    if (expr.kind === 'binary') return `(${shape(expr.lhs)}${expr.op}${shape(expr.rhs)})`
    return expr.kind === 'unary' ? `[${expr.op}${shape(expr.expr)}]` : print(expr)
  }
  const expected = {
    'a+b*c^d': '(a+(b*(c^d)))',
    'a^b^c': '(a^(b^c))',
    'a-b-c': '((a-b)-c)',
    '-a^b': '[-(a^b)]',
    '-a*b': '([-a]*b)',
    'a^-b*c': '((a^[-b])*c)',
    'a or b and c or d': '((aor(bandc))ord)',
    'a==b+c': '(a==(b+c))',
    'a atan2 b % c': '((aatan2b)%c)',
    '-a offset 5m': '[-a offset 5m]',
    '-2^2': '[-(2^2)]',
  }
  for (const [query, tree] of Object.entries(expected)) t.equal(shape(parse(query)), tree, query)
})

t.test('selectors', async (t) => {
  t.same(clean(parse('requests{code=~"5..", "http.method"!="GET"} @ 12.5 offset -1m')), {
    kind: 'vector',
    name: 'requests',
    matchers: [
      { name: 'code', op: '=~', value: '5..' },
      { name: 'http.method', op: '!=', value: 'GET' },
      { name: '__name__', op: '=', value: 'requests' },
    ],
    at: 12_500,
    offset: -60_000,
  })
  t.same((parse('{"http.requests"}') as VectorSelector).matchers, [{ name: '__name__', op: '=', value: 'http.requests' }])
  t.match(parse('requests[1.5] smoothed @ end()'), { kind: 'matrix', range: 1500, vector: { modifier: 'smoothed', at: 'end', offset: 0 } })
  t.match(parse('abs(requests)[1h:30s] offset 1d'), { kind: 'subquery', range: 3_600_000, step: 30_000, offset: 86_400_000 })
  t.notOk('step' in parse('requests[1h:]'))
})

t.test('durations', async (t) => {
  const range = (query: string) => (parse(query) as MatrixSelector | SubqueryExpr).range
  t.equal(range('requests[-5m]'.replace('-5m', '0x10')), 16_000)
  t.match(range('requests[step() * 1.1 + 5m]'), {
    kind: 'duration-binary',
    op: '+',
    lhs: { kind: 'duration-binary', op: '*', lhs: { kind: 'step' }, rhs: { kind: 'duration', seconds: 1.1, bare: true } },
    rhs: { kind: 'duration', seconds: 300, bare: false },
  })
  t.match(range('requests[min_of(-range(), ((5m)))]'), {
    kind: 'duration-call',
    name: 'min',
    args: [
      { kind: 'duration-unary', op: '-', expr: { kind: 'range' } },
      { kind: 'duration-paren', expr: { kind: 'duration', seconds: 300 } },
    ],
  })
  t.match(parse('requests offset 5m + 1'), { kind: 'binary', lhs: { offset: 300_000 } })
  t.match(parse('requests offset (5m) + 1'), { kind: 'vector', offset: { kind: 'duration-binary' } })
})

t.test('matching', async (t) => {
  const matching = (query: string) => (parse(query) as BinaryExpr).matching
  t.same(matching('a + b'), { card: 'one-to-one', on: false, labels: [], include: [] })
  t.same(matching('a / on(x, "y.z") group_right(w) fill_left(2) b'), { card: 'one-to-many', on: true, labels: ['x', 'y.z'], include: ['w'], fillLeft: 2 })
  t.match(matching('a unless ignoring(x) b'), { card: 'many-to-many', on: false, labels: ['x'] })
  t.match(matching('a * fill(-1) b'), { fillLeft: -1, fillRight: -1 })
  t.equal(matching('a + 1'), undefined)
  t.match(parse('1 > bool 2'), { returnBool: true })
})

t.test('positions', async (t) => {
  const expr = parse('  sum by (x) (rate(requests[5m])) / -total') as BinaryExpr
  t.same(expr.pos, { start: 2, end: 42 })
  t.match(expr.lhs, {
    pos: { start: 2, end: 33 },
    expr: { pos: { start: 14, end: 32 }, args: [{ pos: { start: 19, end: 31 } }] },
  })
  t.match(expr.rhs, { pos: { start: 36, end: 42 } })
  t.same(parse('requests @ 5 offset 1m').pos, { start: 0, end: 22 })
})

t.test('limits', async (t) => {
  const limits = { maxLength: 100, maxDepth: 10 }
  t.throws(() => parse(`a${' '.repeat(100)}`, limits), {
    message: '1:1: parse error: query is longer than 100 characters; shorten it or raise promql.max_query_length',
  })
  t.throws(() => parse('(((((((((((1)))))))))))', limits), {
    message: '1:11: parse error: expression is nested deeper than 10 levels; simplify it or raise promql.max_query_depth',
  })
  t.throws(() => parse(new Array(12).fill('a').join('+'), limits), { message: /nested deeper than 10 levels/ })
  t.throws(() => parse(`a[${new Array(12).fill('1s').join('+')}]`, limits), { message: /nested deeper than 10 levels/ })
  t.throws(() => parse(`${'1+'.repeat(20)} !!`, limits), { message: /nested deeper than 10 levels/ }, 'before the rest is read')
  t.throws(() => parse(`a offset (${new Array(5000).fill('1s').join('*')})`), { message: /nested deeper than 500 levels/ })
  parse(`rate(a[${new Array(5).fill('1s').join('+')}]) + rate(a[${new Array(5).fill('1s').join('+')}])`, limits)
  for (const text of ['(', '-', 'abs(', 'a+', 'a^', 'sum(', 'a[(', 'a offset (', 'a[-', 'a{', '[', 'a[1m:']) {
    t.throws(() => parse(text.repeat(100_000 / text.length)), { name: 'ParseError' }, text)
  }
})

t.test('selectors alone', async (t) => {
  t.same(parseSelector('requests{code="500"}'), [
    { name: 'code', op: '=', value: '500' },
    { name: '__name__', op: '=', value: 'requests' },
  ])
  t.same(parseSelector('{}'), [])
  t.throws(() => parseSelector('requests[5m]'), { message: '1:9: parse error: unexpected "["' })
  t.throws(() => parseSelector(''), { name: 'ParseError' })
  t.throws(() => parseSelector('5'), { message: '1:1: parse error: unexpected number "5"' })
})

t.test('fuzzer, briefly', async (t) => {
  const seed = Date.now() % 1e9
  t.comment(`seed ${seed}`)
  t.ok(fuzz(seed, (queries) => queries < 2000).good > 100)
})
