/** Arithmetic over the numbers of a group, bit for bit as DuckDB computes it. */
import { DuckDBInstance } from '@duckdb/node-api'
import t from 'tap'
import { Random } from '../../../conformance/random.ts'
import type { Cells } from './accumulate.ts'
import { expressionValues } from './expressions.ts'
import type { Expression } from './plan.ts'

const { SVC_SEED } = process.env
const seed = SVC_SEED === undefined ? Date.now() % 1e9 : Number(SVC_SEED)
const A: Expression = { kind: 'aggregate', aggregate: 0 }
const B: Expression = { kind: 'aggregate', aggregate: 1 }
const number = (value: number): Expression => ({ kind: 'number', value })
const call = (name: string, ...operands: Expression[]): Expression => ({ kind: 'call', name, operands })

const CASES: [sql: string, expression: Expression][] = [
  ['a + b', call('+', A, B)],
  ['100 - a', call('-', number(100), A)],
  ['a * 1.1', call('*', A, number(1.1))],
  ['a / 3', call('/', A, number(3))],
  ['7 / 3.0 * a', call('*', call('/', number(7), number(3)), A)],
  ['-a', call('-', A)],
  ['abs(b)', call('abs', B)],
  ['floor(a)', call('floor', A)],
  ['ceil(b)', call('ceil', B)],
  ['round(a)', call('round', A)],
  ...[0, 1, 2, 3, 7, 15].map((digits): [string, Expression] => [`round(a, ${digits})`, call('round', A, number(digits))]),
  ['round(100 * a / 3, 2)', call('round', call('/', call('*', number(100), A), number(3)), number(2))],
]

const cellsOf = (values: readonly (number | null)[]): Cells => ({
  kind: 'max',
  field: 'f',
  ofTimes: false,
  values: Float64Array.from(values, (value) => value ?? Number.NEGATIVE_INFINITY),
  counts: undefined,
})

t.test('the same doubles', async (t) => {
  const random = new Random(seed)
  const instance = await DuckDBInstance.create()
  const connection = await instance.connect()
  t.teardown(() => {
    connection.closeSync()
    instance.closeSync()
  })
  const value = (): number | null => {
    const sign = random.chance(0.5) ? 1 : -1
    const of = [() => random.below(100), () => random.below(1000) / 8, () => random.below(100_000) / 1000, () => random.next(), () => random.next() * 1e18]
    return random.chance(0.05) ? null : sign * random.pick(of)()
  }
  const pairs = Array.from({ length: 3000 }, () => [value(), value()])
  // Literals are read as the doubles that they are.
  pairs.push([0.49999999999999994, -0.49999999999999994], [2 ** 52 + 0.5, -0.5], [1.005, 2.675], [1e300, -1e300])
  const text = (of: number | null): string => (of === null ? 'NULL' : `'${of}'::DOUBLE`)
  const rows = pairs.map(([a, b], i) => `(${i}, ${text(a)}, ${text(b)})`).join(', ')
  const reader = await connection.runAndReadAll(`SELECT ${CASES.map(([sql]) => sql).join(', ')} FROM (VALUES ${rows}) v(i, a, b) ORDER BY i`)
  const wanted = reader.getRows()
  const aggregates = [cellsOf(pairs.map(([a]) => a)), cellsOf(pairs.map(([, b]) => b))]
  for (const [c, [sql, expression]] of CASES.entries()) {
    const values = expressionValues(expression, aggregates, pairs.length)
    const wrong = pairs.flatMap((pair, i) => {
      const found = Number.isNaN(values?.[i]) ? null : values?.[i]
      return Object.is(found, wanted[i][c]) || (found === 0 && wanted[i][c] === 0) ? [] : [{ sql, pair, found, wanted: wanted[i][c] }]
    })
    t.same(wrong.slice(0, 3), [], `SVC_SEED=${seed} ${sql}`)
  }
})

t.test('what is not finite, and a division by zero, is left to DuckDB', (t) => {
  const of = (...values: (number | null)[]): readonly Cells[] => [cellsOf(values), cellsOf(values)]
  t.equal(expressionValues(call('/', number(1), A), of(2, 0), 2), undefined)
  t.equal(expressionValues(call('*', A, number(10)), of(1e308), 1), undefined)
  t.same([...(expressionValues(call('/', A, B), of(null, 2), 2) as Float64Array)], [Number.NaN, 1])
  t.end()
})
