import { readFileSync } from 'node:fs'
import t from 'tap'
import { formatFloat as formatGeneral } from '../functions/format.ts'
import { FUNCTIONS } from '../functions/signatures.ts'
import { formatDuration, formatFloat, quote, quoteChar } from './go-text.ts'
import { toJson } from './json.ts'
import { parse } from './parse.ts'
import { pretty } from './pretty.ts'
import { print } from './print.ts'

t.test('the canonical spelling, which parses to itself', async (t) => {
  const lines = readFileSync(new URL('./testcases/canonical.txt', import.meta.url), 'utf8')
    .trimEnd()
    .split('\n')
  for (let i = 0; i < lines.length; i += 2) {
    const expected = lines[i + 1].slice(2)
    t.equal(print(parse(lines[i])), expected, lines[i])
    t.equal(print(parse(expected)), expected, expected)
  }
})

t.test('every function is called by its name', async (t) => {
  const sample = { scalar: '1', vector: 'a', matrix: 'a[5m]', string: '"s"', none: '' }
  for (const { name, args } of FUNCTIONS.values()) {
    const query = `${name}(${args.map((type, i) => (name === 'info' && i === 1 ? '{x="y"}' : sample[type])).join(', ')})`
    t.equal(print(parse(query)), query)
  }
})

t.test('numbers and durations', async (t) => {
  t.equal(formatFloat(1e21), `1${'0'.repeat(21)}`)
  t.equal(formatFloat(-1.5e-7), '-0.00000015')
  t.equal(formatFloat(-0), '-0')
  t.equal(formatFloat(123.25), '123.25')
  t.equal(formatGeneral(1e21), '1e+21')
  t.equal(formatGeneral(1_234_567), '1.234567e+06')
  t.equal(formatGeneral(123_456), '123456')
  t.equal(formatGeneral(0.00001234), '1.234e-05')
  t.equal(formatGeneral(-Infinity), '-Inf')
  t.equal(formatDuration(31_536_000_000), '1y')
  t.equal(formatDuration(90 * 86_400_000), '90d')
  t.equal(formatDuration(14 * 86_400_000), '2w')
  t.equal(formatDuration(-93_784_005), '-1d2h3m4s5ms')
})

t.test('quoting', async (t) => {
  t.equal(quote('a"\\\n\x00é\u200b😀\u{e0001}'), '"a\\"\\\\\\n\\x00é\\u200b😀\\U000e0001"')
  t.equal(quoteChar("'"), "'\\''")
  t.equal(quoteChar('"'), "'\"'")
})

t.test('what fits a line stays in it', async (t) => {
  t.equal(pretty(parse('sum  by(job)(rate( requests{ code="500"}[5m] ))>0')), 'sum by (job) (rate(requests{code="500"}[5m])) > 0')
})

t.test('what does not is broken up', async (t) => {
  const long = 'histogram_quantile(0.9, sum by (le, job) (rate(request_duration_seconds_bucket{job="api", code=~"5.."}[5m]))) > bool on (job) (threshold + 1)'
  t.equal(
    pretty(parse(long)),
    [
      '  histogram_quantile(',
      '    0.9,',
      '    sum by (le, job) (rate(request_duration_seconds_bucket{code=~"5..",job="api"}[5m]))',
      '  )',
      '> bool on (job)',
      '  (threshold + 1)',
    ].join('\n'),
  )
  t.equal(print(parse(pretty(parse(long)))), print(parse(long)))
  const name = 'x'.repeat(60)
  t.equal(pretty(parse(`-(topk(5, ${name} + ${name}))`)), ['-(', '  topk(', '    5,', `      ${name}`, '    +', `      ${name}`, '  )', ')'].join('\n'))
  t.equal(pretty(parse(`(${name} + ${name})[5m:1m] @ end()`)), ['(', `    ${name}`, '  +', `    ${name}`, ')[5m:1m] @ end()'].join('\n'))
})

t.test('JSON of the tree', async (t) => {
  const selector = { offset: 0, offsetExpr: null, timestamp: null, startOrEnd: null, anchored: false, smoothed: false }
  t.same(toJson(parse('a + on(x) group_left(y) fill_right(1) b')), {
    type: 'binaryExpr',
    op: '+',
    lhs: { ...selector, type: 'vectorSelector', name: 'a', matchers: [{ name: '__name__', value: 'a', type: '=' }] },
    rhs: { ...selector, type: 'vectorSelector', name: 'b', matchers: [{ name: '__name__', value: 'b', type: '=' }] },
    matching: { card: 'many-to-one', labels: ['x'], on: true, include: ['y'], fillValues: { lhs: null, rhs: 1 } },
    bool: false,
  })
  t.match(toJson(parse('rate(a[step() * (2)] @ 5 offset -1m)')), {
    type: 'call',
    func: { name: 'rate', argTypes: ['matrix'], variadic: 0, returnType: 'vector' },
    args: [
      {
        type: 'matrixSelector',
        range: 0,
        rangeExpr: {
          type: 'durationExpr',
          op: '*',
          lhs: { type: 'durationExpr', op: 'step', lhs: null, rhs: null, wrapped: false },
          rhs: { type: 'durationExpr', op: '+', lhs: null, rhs: { type: 'numberLiteral', val: '2', duration: false }, wrapped: true },
          wrapped: false,
        },
        offset: -60_000,
        timestamp: 5000,
      },
    ],
  })
  t.match(toJson(parse('topk(3, -(a))')), {
    type: 'aggregation',
    op: 'topk',
    param: { type: 'numberLiteral', val: '3' },
    expr: { type: 'unaryExpr', op: '-', expr: { type: 'parenExpr' } },
    grouping: [],
    without: false,
  })
  t.match(toJson(parse('a[1h:5m] @ end()')), { type: 'subquery', range: 3_600_000, step: 300_000, startOrEnd: 'end', timestamp: null })
  t.match(toJson(parse('1 == bool 1')), { matching: null, bool: true })
  t.same(toJson(parse('"\\xff"')), { type: 'stringLiteral', val: '\ufffd' })
})
