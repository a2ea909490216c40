/**
 * Families of statements that grow: the same grammar, sixteen times larger. What a query thread has to do for one, before it runs where it can be ended, grows with its
 * length and hardly faster. Each family is here for a way to the square or beyond: of a lexer, of a list that is looked through for each of its items, of names that stand for
 * others.
 */
import t from 'tap'
import { DEFAULT_LIMITS } from '../sql-limits.ts'
import { guardPlan } from './plan-guard.ts'
import { prepareSql } from './prepare.ts'
import type { StatementRunner } from './statement.ts'
import { CPU, CPU_ROWS, testHost } from './testing/host.ts'

/** Processor time of a statement of a quarter of the size, this often at most; the square would be 16. */
const GROWTH = 9
/** Of DuckDB's parser for a list of keys of GROUP BY, which it compares with one another, among others; of a busy machine the most. */
const FLOOR_MS = 1000
const LIMIT_MS = 10_000

const repeat = (n: number, one: (i: number) => string, between = ', '): string => Array.from({ length: n }, (_, i) => one(i)).join(between)
const list = (one: (i: number) => string, clause: (n: number) => string = () => ''): ((n: number) => string) => {
  return (n) => `SELECT ${repeat(n, one)} FROM cpu${clause(n)}`
}
const where = (one: (i: number) => string, between = ' AND '): ((n: number) => string) => {
  return (n) => `SELECT count(*) FROM cpu WHERE ${repeat(n, one, between)}`
}
const nested = (open: string, within: string, close: string, from = ' FROM cpu'): ((n: number) => string) => {
  return (n) => `SELECT ${open.repeat(n)}${within}${close.repeat(n)}${from}`
}
const time = (before: string, fill: string, behind: string): ((n: number) => string) => {
  return (n) => `SELECT 1 FROM cpu WHERE _time > '${before}${fill.repeat(n)}${behind}'`
}

const FAMILIES: Record<string, (n: number) => string> = {
  'comments in comments': (n) => `${'/*'.repeat(n)}${'*/'.repeat(n)}SELECT 1`,
  'comments that end nowhere': (n) => `SELECT 1 ${'/*'.repeat(n)}`,
  'comments side by side': (n) => `SELECT 1 ${'/**/'.repeat(n)}`,
  'comments and operators': (n) => `SELECT 1 ${'/*+*/'.repeat(n)}`,
  'signs in a row': (n) => `SELECT 1 ${'+-'.repeat(n)}1`,
  'signs between comments': (n) => `SELECT 1 ${'+/**/-'.repeat(n)}1`,
  'signs in rows': (n) => `SELECT ${repeat(n, () => `1${'+-'.repeat(4)}1`)}`,
  'signs behind a blank and a text with escapes': (n) => `SELECT \u00a0e'\\'' ${'+-'.repeat(n)}1`,
  quotes: (n) => `SELECT '${"''".repeat(n)}'`,
  'quotes that end nowhere': (n) => `SELECT ${`'a" `.repeat(n)}`,
  'dollar quotes': (n) => `SELECT ${repeat(n, (i) => `$a${i}$`, '')}`,
  'words of LATEST ON': (n) => `SELECT * FROM cpu ${'latest on a partition by a, '.repeat(n)}`,
  'names like generated ones': (n) => `SELECT '${repeat(Math.ceil(Math.sqrt(n)), (i) => `column${'x'.repeat(i)}_1`, ' ')}'`,
  'blanks in a time': time('2024-01-01', ' ', 'x'),
  'blanks behind a time': time('2024-01-01 10:00:00', ' ', 'x'),
  'blanks and T': time('2024-01-01', 'T ', 'x'),
  'blanks in an interval': (n) => `SELECT 1 FROM cpu WHERE _time > now() - INTERVAL '1${' '.repeat(n)}x'`,
  'many intervals': (n) => `SELECT 1 FROM cpu WHERE _time > now() - INTERVAL '${'1 h '.repeat(n)}'`,
  'keys alone': (n) => `SELECT 1 GROUP BY ${repeat(n, (i) => String(i + 1))}`,
  'keys behind quotes': (n) => `SELECT 1 GROUP BY '(', E'\\'(', $a$($a$, "(", ${repeat(n, (i) => String(i + 1))}`,
  'keys by number': list(
    () => 'procs',
    (n) => ` GROUP BY ${repeat(n, (i) => String(i + 1))}`,
  ),
  'tags by number': list(
    () => 'hostname',
    (n) => ` GROUP BY ${repeat(n, (i) => String(i + 1))} ORDER BY ${repeat(n, (i) => String(i + 1))}`,
  ),
  'keys by alias': list(
    (i) => `hostname AS a${i}`,
    (n) => ` GROUP BY ${repeat(n, (i) => `a${i}`)} ORDER BY ${repeat(n, (i) => `a${i}`)}`,
  ),
  'keys by expression': list(
    (i) => `procs + ${i}`,
    (n) => ` GROUP BY ${repeat(n, (i) => `procs + ${i}`)}`,
  ),
  'common table expressions': (n) => `WITH ${repeat(n, (i) => `c${i} AS (SELECT 1)`)} SELECT 1`,
  'common table expressions of others': (n) => `WITH c0 AS (SELECT 1), ${repeat(n, (i) => `c${i + 1} AS (SELECT * FROM c${i})`)} SELECT 1`,
  'aliases of aliases': (n) => `SELECT 1 AS a0, ${repeat(n, (i) => `a${i} + 1 AS a${i + 1}`)}`,
  'aliases that double': (n) => `SELECT procs AS a0, ${repeat(n, (i) => `a${i} + a${i} AS a${i + 1}`)} FROM cpu`,
  'aliases that double in subqueries': (n) => `SELECT procs AS a0, ${repeat(n, (i) => `(SELECT a${i} + a${i}) AS a${i + 1}`)} FROM cpu`,
  'aliases in conditions': (n) => `SELECT procs + 1 AS a FROM cpu WHERE ${repeat(n, () => 'a > 1', ' OR ')}`,
  stars: list(() => '*'),
  'equal columns': where((i) => `procs = usage_user + ${i}`),
  'patterns, one of them': where((i) => `hostname ILIKE '%a${i}%'`, ' OR '),
  'patterns, all of them': where((i) => `hostname LIKE '%a${i}_'`),
  'regular expressions': where((i) => `hostname ~ '${'[\\pL]'.repeat(20)}${i}'`, ' OR '),
  'a regular expression': (n) => `SELECT count(*) FROM cpu WHERE hostname ~ '${'[\\pL]'.repeat(n)}'`,
  'repetitions in repetitions': where((i) => `regexp_matches(hostname, '((x{10}){10}){9}${i}')`, ' OR '),
  'values of a tag': (n) => `SELECT count(*) FROM cpu WHERE hostname IN (${repeat(n, (i) => `'h${i}'`)})`,
  'tags, each of a value': where((i) => `hostname = 'h${i}'`, ' OR '),
  'times, each of a value': where((i) => `_time = '2024-01-01T00:00:${10 + (i % 50)}Z'`, ' OR '),
  divisions: list(() => 'procs / usage_idle'),
  'divisions of divisions': nested('procs / (', 'procs', ')'),
  'times of times': nested("INTERVAL '1h' + (", '_time', ')'),
  'buckets of buckets': nested("time_bucket('1mo', ", '_time', ')'),
  'cases of cases': nested('CASE WHEN procs = 1 THEN 1 ELSE ', '1', ' END'),
  'cases that compare cases': nested('CASE ', 'procs', ' WHEN 1 THEN 2 WHEN 3 THEN 4 END'),
  'cases of many arms that compare cases': nested('CASE ', 'procs', ` ${repeat(12, (i) => `WHEN ${i} THEN ${i}`, ' ')} END`),
  'windows of a name': (n) => `SELECT ${repeat(n, () => 'max(procs) OVER w')} FROM cpu WINDOW w AS (PARTITION BY ${repeat(n, () => '1')})`,
  'a long text in a window of a name': (n) => `SELECT ${repeat(n, () => 'max(procs) OVER w')} FROM cpu WINDOW w AS (PARTITION BY '${'x'.repeat(n)}')`,
  rollups: (n) => `SELECT count(*) FROM cpu GROUP BY ROLLUP (${repeat(n, (i) => `c${i}`)})`,
  'rollups by others': (n) => `SELECT count(*) FROM cpu GROUP BY ${repeat(n, (i) => `ROLLUP (a${i}, b${i})`)}`,
  cubes: (n) => `SELECT 1${' GROUP BY CUBE (a, b, c, d, e, f, g, h, i, j, k, l, m, n, o) UNION ALL SELECT 1'.repeat(n)}`,
  'grouping sets of sets': (n) => `SELECT 1 FROM cpu GROUP BY ${'GROUPING SETS (a, ROLLUP (b, c), '.repeat(n)}d${')'.repeat(n)}`,
  'keys behind a name': (n) => `SELECT 1 FROM cpu GROUP BY cpu.having, ${repeat(n, (i) => `procs + ${i}`)}`,
  pivots: (n) => `SELECT * FROM (PIVOT (SELECT ${repeat(n, () => '1')}) ON ${repeat(n, (i) => `a${i}`)} USING count(*))`,
  negations: nested('- ', 'procs', ''),
  calls: nested('abs(', 'procs', ')'),
  subqueries: nested('(SELECT ', '1', ')', ''),
  unions: (n) => `SELECT 1${' UNION ALL SELECT 1'.repeat(n)}`,
  joins: (n) => `SELECT 1 FROM cpu c0 ${repeat(n, (i) => `JOIN cpu c${i + 1} USING (procs)`, ' ')}`,
  'columns of a name': (n) => `SELECT 1 FROM (SELECT ${repeat(n, () => 'procs')} FROM cpu)`,
  'parts of a name': (n) => `SELECT ${repeat(n, () => 'a', '.')} FROM cpu`,
  parameters: (n) => `SELECT ${repeat(n, (i) => `$a${i}`)}`,
  statements: (n) => 'SELECT 1;'.repeat(n),
}

const host = await testHost([[CPU, CPU_ROWS]])
t.after(() => host.close())
const apart: StatementRunner = { open: () => Promise.reject(new Error('another process has it')), plans: () => Promise.resolve([]) }
host.apart = () => ({ host, runner: apart })

/** What a query thread does for a statement until it runs, in processor time. */
async function cost(text: string): Promise<number> {
  const before = process.cpuUsage()
  try {
    const { sql, runner, describes } = await prepareSql(host, 'default', text)
    if (runner === undefined) await guardPlan(describes ?? sql, host.bounds, host.connection)
  } catch (error) {
    if (!/SQL_ERROR|Error: /.test(`${(error as { code?: string }).code} ${(error as Error).message}`)) throw error
  }
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1000
}

/** The largest that is taken. */
function largest(family: (n: number) => string): number {
  let [low, high] = [4, DEFAULT_LIMITS.textBytes]
  while (low < high) {
    const middle = (low + high + 1) >> 1
    if (Buffer.byteLength(family(middle)) <= DEFAULT_LIMITS.textBytes) low = middle
    else high = middle - 1
  }
  return low
}

for (const [name, family] of Object.entries(FAMILIES)) {
  t.test(name, async (t) => {
    const most = largest(family)
    let before = 0
    for (let n = Math.max(4, most >> 4); ; n = Math.min(most, n * 4)) {
      const ms = await cost(family(n))
      const allowed = Math.min(LIMIT_MS, Math.max(FLOOR_MS, before * GROWTH))
      t.ok(ms <= allowed, `${n}: ${Math.round(ms)} ms, ${Math.round(before)} ms for a quarter of it`)
      // A longer one would take for ever.
      if (ms > allowed || n === most) return
      before = ms
    }
  })
}
