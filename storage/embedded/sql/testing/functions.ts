/** Functions as a plugin would declare them, of each kind, for tests of the SQL layer. */
import type { DeclaredSqlFunction, SqlFunctionBody, SqlFunctionColumn } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { functionSpec } from '../../threads/function-spec.ts'

const module = new URL(import.meta.url)
const numbers = ({ values }: SqlFunctionColumn): Float64Array => values as Float64Array
const x = { name: 'x', type: 'DOUBLE' } as const

const DECLARED: readonly Omit<DeclaredSqlFunction, 'plugin' | 'summary'>[] = [
  { name: 'plus_one', kind: 'scalar', args: [x], returns: 'DOUBLE', module, bounded: true },
  {
    name: 'shouted',
    kind: 'scalar',
    args: [
      { name: 'text', type: 'VARCHAR' },
      { name: 'times', type: 'INTEGER', constant: { min: 1, max: 3 }, default: 1 },
    ],
    returns: 'VARCHAR',
    module,
  },
  { name: 'next_tick', kind: 'scalar', args: [{ name: 't', type: 'TIMESTAMP_NS' }], returns: 'TIMESTAMP_NS', module, bounded: true },
  { name: 'doubled', kind: 'scalar', args: [{ name: 'list', type: 'DOUBLE[]' }], returns: 'DOUBLE[]', module },
  { name: 'calls', kind: 'scalar', args: [x], returns: 'BIGINT', module, volatile: true },
  { name: 'failing', kind: 'scalar', args: [x], returns: 'DOUBLE', module },
  { name: 'short', kind: 'scalar', args: [x], returns: 'DOUBLE', module },
  { name: 'absent', kind: 'scalar', args: [x], returns: 'DOUBLE', module: new URL('./no-such-module.ts', import.meta.url) },
  { name: 'spread', kind: 'aggregate', args: [x], returns: 'DOUBLE', module },
  { name: 'newest', kind: 'aggregate', args: [x, { name: 't', type: 'TIMESTAMP_NS' }], returns: 'DOUBLE', module, orderedBy: 't' },
  { name: 'running', kind: 'window', args: [x, { name: 'from', type: 'DOUBLE', constant: true, default: 0 }], returns: 'DOUBLE', module },
  { name: 'half', kind: 'scalar', args: [x], expression: 'x / 2' },
  { name: 'quarter', kind: 'scalar', args: [x], expression: 'half(half(x))' },
  { name: '_private', kind: 'scalar', args: [x], expression: 'x + 100' },
  { name: 'hundred_more', kind: 'scalar', args: [x], expression: '_private(x)' },
  { name: 'middle', kind: 'aggregate', args: [x], expression: '(min(x) + max(x)) / 2' },
  { name: 'from_mean', kind: 'window', args: [x], expression: 'x - avg(x) OVER whole' },
  { name: 'since_last', kind: 'window', args: [x], expression: 'x - lag(x) OVER ordered' },
  { name: 'recent', kind: 'scalar', args: [{ name: 't' }, { name: 'since', type: 'VARCHAR', constant: true }], expression: 't >= since' },
  { name: 'endless', kind: 'scalar', args: [x], expression: 'endless(x)' },
  { name: 'hungry', kind: 'scalar', args: [x], expression: 'x + x + x + x + x + x + x + x' },
  { name: 'thief', kind: 'scalar', args: [x], expression: 'x + secret' },
  { name: 'reader', kind: 'scalar', args: [x], expression: "(SELECT count(*) FROM read_text('/etc/passwd'))" },
  { name: 'broken', kind: 'scalar', args: [x], expression: 'x +' },
  { name: 'two', kind: 'scalar', args: [x], expression: 'x, x FROM cpu' },
]

export const TEST_FUNCTIONS = DECLARED.map((declared) => functionSpec({ ...declared, plugin: 'tested', summary: declared.name }))

export const plus_one: SqlFunctionBody = ([values], rows) => ({ values: numbers(values).map((value, i) => (i < rows ? value + 1 : 0)) })

export const shouted: SqlFunctionBody = ([texts], rows, [times]) => ({
  values: Array.from({ length: rows }, (_, i) => `${(texts.values as string[])[i]?.toUpperCase()}${'!'.repeat(Number(times))}`),
})

export const next_tick: SqlFunctionBody = ([times]) => ({ values: (times.values as BigInt64Array).map((time) => time + 1n) })

export const doubled: SqlFunctionBody = ([lists]) => ({ ...lists, values: numbers(lists).map((value) => value * 2) })

/** Some of them as DuckDB itself has functions, to compare answers with. */
export const PLAIN_MACROS: readonly string[] = [
  'CREATE MACRO plus_one(x) AS CAST(x AS DOUBLE) + 1',
  'CREATE MACRO half(x) AS CAST(x AS DOUBLE) / 2',
  'CREATE MACRO quarter(x) AS CAST(x AS DOUBLE) / 4',
]

let called = 0
export const calls: SqlFunctionBody = (_columns, rows) => ({ values: BigInt64Array.from({ length: rows }, () => BigInt(++called)) })

export const failing: SqlFunctionBody = () => {
  throw new SvcError('SQL_ERROR', 'cannot do that to a column')
}

export const short: SqlFunctionBody = () => ({ values: new Float64Array(0) })

export const spread: SqlFunctionBody = ([{ values, lists }], rows) => {
  const { starts, lengths } = lists as NonNullable<SqlFunctionColumn['lists']>
  const out = new Float64Array(rows)
  for (let i = 0; i < rows; i++) {
    const group = (values as Float64Array).subarray(starts[i], starts[i] + lengths[i])
    out[i] =
      group.reduce((max, value) => Math.max(max, value), Number.NEGATIVE_INFINITY) -
      group.reduce((min, value) => Math.min(min, value), Number.POSITIVE_INFINITY)
  }
  return { values: out }
}

export const newest: SqlFunctionBody = ([{ values, lists }], rows) => {
  const { starts, lengths } = lists as NonNullable<SqlFunctionColumn['lists']>
  return { values: Float64Array.from({ length: rows }, (_, i) => (values as Float64Array)[starts[i] + lengths[i] - 1]) }
}

/** A missing value is skipped. */
export const running: SqlFunctionBody = ([values], _rows, [from]) => {
  let sum = Number(from)
  return { values: numbers(values).map((value) => (Number.isNaN(value) ? value : (sum += value))) }
}
