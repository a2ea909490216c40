/** Random conditions over random columns, compared with a plain reading of both. */

import { type Column, type FieldInfo, type FieldType, TableBatch } from 'svcdb/lib/columns'
import { atOnce } from 'svcdb/lib/event-loop'
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import type { Condition } from '../statement/condition.ts'
import { parseStatement } from '../statement/parse.ts'
import { Evaluator, type Rows } from './evaluator.ts'
import { compile } from './program.ts'
import { Scratch } from './scratch.ts'
import { FactsBudget } from './series-facts.ts'

const LIMITS = { maxBytes: 16_384, maxComparisons: 64, maxDepth: 16, maxChannels: 4 }
const seed = Number(process.env.SVC_SEED ?? Date.now() % 1_000_000)
const runs = Number(process.env.SVC_RUNS ?? 300)

function conditionOf(text: string): Condition {
  const statement = parseStatement(`CREATE TRIGGER t ON m WHEN ${text}`, LIMITS)
  if (statement.kind !== 'create' || statement.condition.kind === 'signals') throw new Error('no trigger')
  return statement.condition
}

const random = seeded(seed)
const below = (n: number): number => Math.floor(random() * n)
const pick = <T>(from: readonly T[]): T => from[below(from.length)]

/** A value as an exact fraction of 10^scale, as written. */
interface Cell {
  unscaled: bigint
  scale: number
  float?: number
}

const TYPES: Record<string, FieldType> = { f: 'float64', i: 'int64', u: 'uint64', d: 'decimal', b: 'bool', s: 'string' }
const TAGS = ['host', 'zone']

function randomCell(type: FieldType): Cell | undefined {
  if (random() < 0.15) return undefined
  switch (type) {
    case 'float64': {
      const float = pick([0, -0, 1.5, 2, 3, 100, -7.25, 1e300, 0.1, 2 ** 53, Number.NaN, Number.POSITIVE_INFINITY, below(10)])
      return { unscaled: 0n, scale: 0, float }
    }
    case 'int64':
      return { unscaled: pick([0n, 1n, 2n, -3n, 2n ** 53n, 2n ** 53n + 1n, 2n ** 62n + 1n, -(2n ** 63n), BigInt(below(10))]), scale: 0 }
    case 'uint64':
      return { unscaled: pick([0n, 1n, 2n ** 63n + 5n, 2n ** 64n - 1n, 2n ** 53n + 1n, BigInt(below(10))]), scale: 0 }
    case 'decimal':
      return { unscaled: pick([0n, 150n, 200n, -725n, 10n ** 30n + 1n, 99999999999999999999n, BigInt(below(1000))]), scale: 2 }
    case 'bool':
      return { unscaled: BigInt(below(2)), scale: 0 }
    default:
      return { unscaled: 7n, scale: 0 }
  }
}

const LITERALS = [
  '0',
  '1',
  '2',
  '1.5',
  '3',
  '-3',
  '-7.25',
  '100',
  '0.1',
  '9007199254740993',
  '9007199254740992',
  '4611686018427387905',
  '1e300',
  '18446744073709551615',
  '2.00',
  '4.99999999999999999999',
  '5',
  '10000000000000000000000000000.01',
]
const OPERATORS = ['=', '<>', '<', '<=', '>', '>=']

function randomCondition(depth: number): string {
  if (depth > 0 && random() < 0.45) {
    const parts = Array.from({ length: 2 + below(2) }, () => randomCondition(depth - 1))
    return `(${parts.join(pick([' AND ', ' OR ']))})`
  }
  if (random() < 0.35) return `${pick(TAGS)} ${pick(['=', '<>'])} '${pick(['a', 'b', 'c'])}'`
  return `${pick([...Object.keys(TYPES), 'none'])} ${pick(OPERATORS)} ${pick(LITERALS)}`
}

/** Compares a value with a literal as the documentation says: floats with the nearest double, all others exactly. */
function holds(condition: Condition, cells: Record<string, Cell | undefined>, tags: Record<string, string>): boolean {
  switch (condition.kind) {
    case 'and':
      return condition.parts.every((part) => holds(part, cells, tags))
    case 'or':
      return condition.parts.some((part) => holds(part, cells, tags))
    case 'tag': {
      const value = tags[condition.tag]
      return value !== undefined && (value === condition.value) === (condition.operator === '=')
    }
    case 'field': {
      const cell = cells[condition.field]
      if (cell === undefined || condition.field === 's') return false
      let order: number
      if (cell.float !== undefined) {
        if (!Number.isFinite(cell.float)) return false
        const literal = Number(condition.literal.text)
        order = cell.float < literal ? -1 : cell.float > literal ? 1 : 0
      } else {
        const [mantissa, exponent = '0'] = condition.literal.text.split('e')
        const [whole, fraction = ''] = mantissa.split('.')
        const right = BigInt(whole + fraction) * 10n ** BigInt(Number(exponent)) * 10n ** BigInt(40 - fraction.length)
        const left = cell.unscaled * 10n ** BigInt(40 - cell.scale)
        order = left < right ? -1 : left > right ? 1 : 0
      }
      return { '=': order === 0, '<>': order !== 0, '<': order < 0, '<=': order <= 0, '>': order > 0, '>=': order >= 0 }[condition.operator]
    }
  }
}

function batchOf(cells: Record<string, Cell | undefined>[], series: number[], tagsOf: (series: number) => Record<string, string>): Rows {
  const table = new TableBatch(null)
  for (const [row, values] of cells.entries()) {
    table.addRow(series[row], row, 0, row)
    for (const [name, cell] of Object.entries(values)) {
      if (cell === undefined) continue
      const column = table.column(name, TYPES[name])
      if (cell.float !== undefined) {
        column.setF64(row, cell.float)
        if (!Number.isFinite(cell.float)) column.nonFinite = true
      } else if (column.type === 'bool') column.setBool(row, cell.unscaled === 1n)
      else if (column.type === 'decimal') column.setDecimal(row, cell.unscaled, cell.scale)
      else column.setPair(row, Number(BigInt.asIntN(32, cell.unscaled)), Number(BigInt.asIntN(32, cell.unscaled >> 32n)))
    }
  }
  const columns: readonly Column[] = table.columns
  const fields: FieldInfo[] = columns.map(({ name, type, scale }) => ({ name, type, ...(type === 'decimal' ? { scale } : {}) }))
  return { rows: cells.length, series: table.series, fields, columns, heap: new Uint8Array(0), tagsOf }
}

t.test(`random conditions, seed ${seed}`, (t) => {
  const scratch = new Scratch()
  let found = 0
  for (let run = 0; run < runs; run++) {
    const texts = Array.from({ length: 1 + below(run % 10 === 0 ? 120 : 12) }, () => randomCondition(3))
    const conditions = texts.map(conditionOf)
    // A budget so small that facts are forgotten all the time.
    const evaluator = new Evaluator(atOnce(compile(conditions)), scratch, new FactsBudget(run % 3 === 0 ? 500 : 1e6))
    const used = Object.keys(TYPES).filter(() => random() < 0.8)
    for (let batch = 0; batch < 3; batch++) {
      const tags = Array.from({ length: 6 }, () => Object.fromEntries(TAGS.filter(() => random() < 0.8).map((tag) => [tag, pick(['a', 'b', 'c', 'd'])])))
      const rows = 1 + below(200)
      const cells = Array.from({ length: rows }, () => Object.fromEntries(used.map((name) => [name, randomCell(TYPES[name])])))
      const series = Array.from({ length: rows }, () => batch * 10 + below(6))
      const tagsOf = (number: number) => tags[number - batch * 10]
      const change = batchOf(cells, series, tagsOf)
      const from = below(rows)
      const to = from + 1 + below(rows - from)
      const off = new Set(conditions.map((_, i) => i).filter(() => random() < 0.1))
      const expected: string[] = []
      for (let row = from; row < to; row++)
        for (const [i, condition] of conditions.entries()) if (!off.has(i) && holds(condition, cells[row], tagsOf(series[row]))) expected.push(`${row}:${i}`)
      const complete = atOnce(evaluator.run(change, from, to, (i) => !off.has(i), 1e9))
      const actual = Array.from(evaluator.pairs.subarray(0, evaluator.found), (pair) => `${from + Math.floor(pair / texts.length)}:${pair % texts.length}`)
      if (!complete || actual.join() !== expected.join()) {
        t.same(actual, expected, `seed ${seed}, run ${run}: ${texts.join(' | ')}`)
        return t.end()
      }
      found += actual.length
      for (const pair of actual.slice(0, 50)) {
        const [row, i] = pair.split(':').map(Number)
        if (!Number.isFinite(evaluator.valueOf(i, row))) t.fail(`value of ${texts[i]}`)
      }
      evaluator.end()
    }
  }
  t.ok(found > runs, `${found} matches`)
  t.end()
})

t.test('what a double cannot hold is compared exactly, also by the least and the greatest of a run', (t) => {
  const cases: [condition: string, type: 'i' | 'u' | 'd', unscaled: bigint, fires: boolean][] = [
    ['i > 9007199254740992', 'i', 2n ** 53n + 1n, true],
    ['i > 9007199254740992', 'i', 2n ** 53n, false],
    ['i < 9007199254740993', 'i', 2n ** 53n, true],
    ['i < 9007199254740993', 'i', 2n ** 53n + 1n, false],
    ['i <> 9007199254740993', 'i', 2n ** 53n, true],
    ['i = 9007199254740993', 'i', 2n ** 53n, false],
    ['i > -9007199254740993', 'i', -(2n ** 53n), true],
    ['u > 18446744073709551614', 'u', 2n ** 64n - 1n, true],
    ['d > 4999999999.99', 'd', 500_000_000_000n, true],
    ['d < 4999999999.99', 'd', 500_000_000_000n, false],
    ['d < -4999999999.99', 'd', -500_000_000_000n, true],
    ['d > 4.99999999999999999999', 'd', 500n, true],
    ['d < 5.00000000000000000001', 'd', 500n, true],
  ]
  for (const [text, name, unscaled, fires] of cases) {
    const evaluator = new Evaluator(atOnce(compile([conditionOf(text)])), new Scratch(), new FactsBudget())
    const change = batchOf([{ [name]: { unscaled, scale: name === 'd' ? 2 : 0 } }], [1], () => ({}))
    t.equal(atOnce(evaluator.run(change, 0, 1, () => true, 10)), true)
    t.equal(evaluator.found, fires ? 1 : 0, `${text}, of ${unscaled}`)
    if (fires && name === 'd') t.equal(evaluator.valueOf(0, 0), Number(unscaled) / 100)
  }
  const evaluator = new Evaluator(atOnce(compile([conditionOf('d > 1000')])), new Scratch(), new FactsBudget())
  const wide = [1n, 2n ** 64n + 5n].map((unscaled) => ({ d: { unscaled, scale: 2 } }))
  t.equal(
    atOnce(
      evaluator.run(
        batchOf(wide, [1, 1], () => ({})),
        0,
        2,
        () => true,
        10,
      ),
    ),
    true,
  )
  t.same([...evaluator.pairs.subarray(0, evaluator.found)], [1], 'more than 64 bits, behind one of a few')
  t.end()
})

t.test('more pairs than are wanted are said to be too many', (t) => {
  const evaluator = new Evaluator(atOnce(compile([conditionOf('f >= 0'), conditionOf("host = 'a'")])), new Scratch(), new FactsBudget())
  const cells = Array.from({ length: 100 }, () => ({ f: { unscaled: 0n, scale: 0, float: 1 } }))
  const change = batchOf(
    cells,
    cells.map(() => 1),
    () => ({ host: 'a' }),
  )
  t.equal(atOnce(evaluator.run(change, 0, 100, () => true, 199)), false)
  t.equal(atOnce(evaluator.run(change, 0, 100, () => true, 200)), true)
  t.equal(evaluator.found, 200)
  t.end()
})

t.test('the value of a signal is that of the first comparison that holds', (t) => {
  const value = (text: string, fields: Record<string, number>) => {
    const evaluator = new Evaluator(atOnce(compile([conditionOf(text)])), new Scratch(), new FactsBudget())
    const table = new TableBatch(null)
    table.addRow(1, 0, 0, 0)
    for (const [name, number] of Object.entries(fields)) table.column(name, 'float64').setF64(0, number)
    const columns = table.columns
    const rows = {
      rows: 1,
      series: table.series,
      fields: columns.map(({ name, type }) => ({ name, type })),
      columns,
      heap: new Uint8Array(0),
      tagsOf: () => ({ host: 'a' }),
    }
    t.equal(atOnce(evaluator.run(rows, 0, 1, () => true, 10)), true)
    t.equal(evaluator.found, 1)
    return evaluator.valueOf(0, 0)
  }
  t.equal(value('a > 1 AND b > 1', { a: 5, b: 7 }), 5)
  t.equal(value('a > 10 OR b > 1', { a: 5, b: 7 }), 7)
  t.equal(value('(a > 1 AND b > 10) OR (c = 3)', { a: 5, b: 7, c: 3 }), 3)
  t.equal(value("host = 'a'", { b: 7, a: 4 }), 4)
  t.equal(value("host = 'a' AND b < 8", { a: 4, b: 7 }), 7)
  t.end()
})
