/**
 * What reaches ClickHouse is read token by token, by rules that know nothing of how it was printed: whatever a caller writes, no table but those of his own
 * namespace is named, no function is called but those on the list here, and no text of his stands in the statement. SVC_SEED repeats a run, SVC_STATEMENTS
 * makes it longer.
 */
import { Readable } from 'node:stream'
import t from 'tap'
import { functions as declared } from '../../../plugins/analytics/functions.ts'
import { Random } from '../../conformance/random.ts'
import { Binder } from '../../embedded/sql/bind.ts'
import { StatementGenerator } from '../../embedded/sql/testing/statements.ts'
import type { Life, StoredField } from '../catalog.ts'
import type { Client, QueryOptions } from '../client.ts'
import type { SeriesStore } from '../series-store.ts'
import { readSettings } from '../settings.ts'
import { databaseOf } from '../statements.ts'
import { TypedStatements } from '../testing/statements.ts'
import { openSql, type SqlContext } from './run.ts'

const SEED = Number(process.env.SVC_SEED ?? 20_240_101)
const STATEMENTS = Number(process.env.SVC_STATEMENTS ?? 700)
const functions = declared.map((one) => ({ ...one, plugin: 'analytics' }))
const PLACE = { prefix: 'svc', cluster: undefined }

/** None of them reads anything but its arguments, or waits. */
const FUNCTIONS = new Set(
  `CAST abs accurateCast accurateCastOrNull addMonths and any anyLastOrNull anyOrNull argMaxOrNull argMinOrNull arrayElementOrNull arrayFilter arrayMap arrayReverseSort arraySort
  arrayStringConcat assumeNotNull avgOrNull ceil coalesce concat corrStableOrNull count covarPopStableOrNull covarSampStableOrNull dense_rank empty endsWith exp first_value_respect_nulls
  floor fromUnixTimestamp64Micro fromUnixTimestamp64Nano greatest groupArray if ifNull ilike intDiv intDivOrZero isFinite isInfinite isNaN isNotDistinctFrom isNotNull isNull lagInFrame
  last_value_respect_nulls leadInFrame least length lengthUTF8 like log log10 log2 lower lowerUTF8 makeDate32 match materialize maxOrNull minOrNull modulo moduloOrZero negate notILike
  notLike nullIf Nullable percent_rank pi position positiveModulo pow quantileExactInclusiveOrNull rank reinterpret reinterpretAsFloat64 replaceAll reverseUTF8 round roundBankers
  roundDown row_number sign sqrt startsWith stddevSampStableOrNull stddevPopStableOrNull substringUTF8 sumOrNull throwIf toDate32 toDayOfMonth toDayOfWeek toDayOfYear toFloat32 toFloat64
  toHour toNullable toInt128 toInt16 toInt256 toInt32 toInt64 toInt8 toISOWeek toISOYear toMinute toMonth toQuarter toSecond toString toUInt128 toUInt16 toUInt32 toUInt64 toUInt8
  toUnixTimestamp64Micro toUnixTimestamp64Nano toYear trimBoth trimLeft trimRight trunc tuple tupleElement unhex uniq uniqExact upperUTF8 varPopStableOrNull varSampStableOrNull Array
  Decimal`.split(/\s+/),
)
const COMBINED =
  /^(any|avg|count|groupArray|max|min|stddev\w+|sum|uniqExact|var\w+|quantile\w+|corrStable|covar\w+|argMin|argMax)(Distinct)?(OrNull)?(If)?(State|Merge)?$/
const WORDS = new Set(
  `ALL AND AS ASC BETWEEN BY CROSS CURRENT DESC DISTINCT EXCEPT FINAL FIRST FOLLOWING FROM FULL GLOBAL GROUP GROUPING IN INNER INTERSECT IS JOIN LAST LEFT LIMIT NOT NULL NULLS OFFSET ON OR
  ORDER OVER PARTITION PRECEDING RANGE RIGHT ROW ROWS SELECT SEMI ANTI SETS SETTINGS UNBOUNDED UNION WHERE WITH nan one series time tags life value keys
  String Int8 Int16 Int32 Int64 Int128 UInt8 UInt16 UInt32 UInt64 UInt128 Float32 Float64`.split(/\s+/),
)
const GENERATED = /^([crkt]\d+|c\d+_t|v\d+|f\d+|[rsat])$/
const SETTINGS =
  /^ SETTINGS do_not_merge_across_partitions_select_final = 1, join_use_nulls = 1, group_by_use_nulls = 1, transform_null_in = 0, aggregate_functions_null_for_empty = 0, short_circuit_function_evaluation = 'enable', max_result_rows = 1000, result_overflow_mode = 'throw', max_memory_usage = 1000000, max_execution_time = 5, timeout_overflow_mode = 'throw'$/
const MESSAGES =
  /^(division by zero|out of range|a number is out of the range of its type|more than one row [a-z ]+|cannot take [a-z ]+|a date outside of the years 1900 to 2299)$/

/** Why a statement is not what it must be; undefined when it is. */
function strayIn(statement: string, database: string): string | undefined {
  const at = statement.indexOf(' SETTINGS ')
  if (at < 0 || !SETTINGS.test(statement.slice(at))) return `settings ${statement.slice(at)}`
  const tokens = statement.slice(0, at).match(/'[^']*'|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*|\d+(?:\.\d+)?|->|[<>!]=|\S/g) ?? []
  for (const [i, token] of tokens.entries()) {
    const [before, next] = [tokens[i - 1], tokens[i + 1]]
    if (token.startsWith("'")) {
      if (!/^'[A-Za-z0-9_ .:/()-]*'$/.test(token) && !MESSAGES.test(token.slice(1, -1))) return `text ${token}`
      continue
    }
    if (/^\d/.test(token) || /^([-+*/=<>(),[\]]|->|[<>!]=)$/.test(token)) continue
    if (!/^[A-Za-z_]/.test(token)) return `sign ${token}`
    const parts = token.split('.')
    if (parts[0] === database) {
      if (parts.length !== 2 || !/^(series|narrow|m_[12])$/.test(parts[1]) || before !== 'FROM') return `table ${token}`
      continue
    }
    // Behind FROM and JOIN stand the namespace's own tables, subqueries, and what WITH has defined.
    if ((before === 'FROM' || before === 'JOIN') && !/^t\d+$/.test(token)) return `relation ${token}`
    if (
      parts.length > 1
        ? parts.length === 2 && parts.every((part) => GENERATED.test(part) || part === 'series' || part === 'time')
        : GENERATED.test(token) || WORDS.has(token)
    )
      continue
    if (parts.length === 1 && next === '(' && (FUNCTIONS.has(token) || COMBINED.test(token))) continue
    return `word ${token} before ${next}`
  }
  return undefined
}

const field = (name: string, type: StoredField['type'], index: number, narrow = false): [string, StoredField] => [
  name,
  { info: { name, type, ...(type === 'decimal' ? { scale: 3 } : {}) }, narrow, index, type, scale: type === 'decimal' ? 3 : 0 },
]
const life = (number: number, namespace: string, name: string, fields: [string, StoredField][]): Life => ({
  ...{
    number,
    namespace,
    name,
    fields: new Map(fields),
    released: 0,
    infinite: true,
    dropped: false,
    known: new Set<string>(),
    tagKeys: undefined,
    doubtful: new Set<string>(),
    forgotten: 0,
    series: 0,
  },
})

const CPU = [
  field('usage', 'float64', 0),
  field('idle', 'float64', 1),
  field('procs', 'int64', 2),
  field('up', 'bool', 3),
  field('price', 'decimal', 4),
  field('note', 'string', 5),
]
const LIVES = [
  life(1, 'mine', 'cpu', CPU),
  life(2, 'mine', 'hits', [field('value', 'float64', 0, true)]),
  // Of the same names, and others.
  life(8, 'theirs', 'cpu', CPU),
  life(9, 'theirs', 'secret', [field('value', 'float64', 0, true)]),
]

/** Names that mean something to ClickHouse, or end what they stand in. */
const HOSTILE = [
  ...[
    'system.tables',
    'system',
    'svc_n_theirs.m_8',
    'svc_n_theirs',
    'narrow',
    'series',
    'm_8',
    'c1',
    'r1',
    't1',
    "x' OR 1=1 --",
    'a"; DROP DATABASE svc',
    'a`b',
    '{p:String}',
    'x\\',
    "\\'",
  ],
  ...[
    'numbers',
    'remote',
    'SETTINGS readonly = 0',
    'secret',
    'currentDatabase',
    '_table',
    '_part',
    '\u0000x',
    'a\n--',
    '/*',
    'FORMAT Null',
    'scan_0',
    'temp',
    'K\u212a',
  ],
]
const INSERTIONS = [
  ...[
    ' FROM system.tables ',
    ' FROM svc_n_theirs.m_8 ',
    ' FROM "svc_n_theirs"."m_8" ',
    ' FROM numbers(10) ',
    " FROM remote('x', 'y.z') ",
    " FROM url('http://x') ",
    " FROM merge('svc', '.*') ",
  ],
  ...[
    ' UNION ALL SELECT * FROM secret ',
    ' SETTINGS readonly = 0 ',
    ' FORMAT Null ',
    " INTO OUTFILE 'x' ",
    " dictGet('a', 'b', 1) ",
    " file('/etc/passwd') ",
    ' currentDatabase() ',
    ' hostName() ',
  ],
  ...[
    " '\\' ",
    " '\\'' ",
    ' -- ',
    ' /* ',
    ' */ ',
    ' ; ',
    ' ` ',
    ' {x:Identifier} ',
    ' $$ ',
    ' sleep(3) ',
    " getSetting('max_threads') ",
    ' theirs.cpu ',
    ' svc.catalog ',
    ' FROM secret ',
    ' scan_0 ',
    ' temp.main.scan_0 ',
  ],
]

function hostile(random: Random, text: string): string {
  let out = text
  for (let left = 1 + random.below(3); left > 0; left--) {
    const words = [...out.matchAll(/[A-Za-z_]\w*|'[^']*'/g)]
    const word = random.pick(words)
    const [from, to] = word === undefined ? [0, 0] : [word.index, word.index + word[0].length]
    const draw = random.below(5)
    const name = random.pick(HOSTILE)
    const put =
      draw === 0
        ? random.pick(INSERTIONS)
        : draw === 1
          ? `"${name.replaceAll('"', '""')}"`
          : draw === 2
            ? `'${name.replaceAll("'", "''")}'`
            : draw === 3
              ? `${word?.[0] ?? ''}${random.pick(INSERTIONS)}`
              : ` (SELECT max(usage) AS "${name.replaceAll('"', '""')}" FROM cpu) `
    out = out.slice(0, from) + put + out.slice(to)
  }
  return out
}

t.test('statements name nothing but the tables of their namespace', async (t) => {
  t.comment(`SVC_SEED=${SEED}`)
  const binder = await Binder.open(functions)
  t.teardown(() => binder.close())
  let sent: string[] = []
  const client = {
    blocks(statement: string, { settings, timeoutMs = 0 }: QueryOptions) {
      sent.push(`${statement}${readSettings({ memory: 1_000_000, timeoutMs }, settings)}`)
      return Readable.from([])
    },
  }
  const context: SqlContext = {
    client: client as unknown as Client,
    place: PLACE,
    series: {
      tagKeys: async (_: string, lives: readonly Life[]) => new Map(lives.map(({ number }) => [number, ['host', "re'gion"]])),
    } as unknown as SeriesStore,
    binder: async () => binder,
    lives: (namespace) => LIVES.filter((one) => one.namespace === namespace),
    keptFrom: () => -(2n ** 63n),
    ready: async () => {},
    now: () => 1_704_110_400_000_000_000n,
    limits: { rows: 1000 },
    functions: new Map(functions.map((one) => [one.name, one])),
  }
  const random = new Random(SEED)
  const typed = new TypedStatements(random)
  const names = new StatementGenerator(random, {
    measurements: new Map([
      ['cpu', ['procs', 'procs']],
      ['hits', ['value', 'value']],
    ]),
    pool: [...HOSTILE.filter((name) => !name.includes('\0')), 'cpu', 'host', 'procs'],
  })
  let [printed, refused, unhandled] = [0, 0, 0]
  for (let i = 0; i < STATEMENTS; i++) {
    const draw = random.below(4)
    const query =
      draw === 0 ? names.statement() : draw === 1 ? typed.statement().text : hostile(random, draw === 2 ? typed.statement().text : names.statement())
    sent = []
    try {
      for await (const _ of await openSql(context, { namespace: 'mine', query }, { timeoutMs: 5000 }));
    } catch (error) {
      refused++
      if ((error as { code?: string }).code !== 'SQL_ERROR' && ++unhandled) t.fail(`${query}: ${(error as Error).stack}`)
      continue
    }
    for (const statement of sent) {
      printed++
      // daysOf, which statements with calendars ask first, has nothing of the caller in it.
      if (statement.startsWith('SELECT replaceRegexpOne(table')) continue
      const stray = strayIn(statement, databaseOf(PLACE, 'mine'))
      if (stray !== undefined) return t.fail(`${query}\n${statement}\n${stray}`)
    }
  }
  t.comment(`${printed} statements printed, ${refused} refused`)
  t.ok(printed > STATEMENTS / 6 && refused > STATEMENTS / 10, `${printed} printed, ${refused} refused`)
  t.equal(unhandled, 0)
})

t.test('the rules find what must not be there', async (t) => {
  const database = databaseOf(PLACE, 'mine')
  const limits = 'max_memory_usage = 1000000, max_execution_time = 5'
  const settings = ` SETTINGS do_not_merge_across_partitions_select_final = 1, join_use_nulls = 1, group_by_use_nulls = 1, transform_null_in = 0, aggregate_functions_null_for_empty = 0, short_circuit_function_evaluation = 'enable', max_result_rows = 1000, result_overflow_mode = 'throw', ${limits}, timeout_overflow_mode = 'throw'`
  t.equal(strayIn(`SELECT c1 AS c2 FROM (SELECT time AS c1 FROM ${database}.m_1 FINAL) AS r1${settings}`, database), undefined)
  for (const sql of [
    ...[
      'SELECT 1 FROM system.tables',
      'SELECT 1 FROM svc_n_theirs.m_8',
      `SELECT 1 FROM ${database}.m_8`,
      'SELECT 1 FROM numbers(10)',
      'SELECT sleep(3) FROM t1',
      'SELECT c1 FROM c1',
    ],
    ...[
      "SELECT 'it\\'s' FROM t1",
      "SELECT 'a;b' FROM t1",
      'SELECT {p:String} FROM t1',
      'SELECT `a` FROM t1',
      'SELECT 1; SELECT 2',
      `SELECT 1, ${database}.m_1 FROM t1`,
      'SELECT hostname FROM t1',
    ],
  ])
    t.ok(strayIn(`${sql}${settings}`, database), sql)
  t.ok(strayIn(`SELECT 1 FROM t1`, database), 'settings')
  t.ok(strayIn(`SELECT 1 FROM t1${settings}, readonly = 0`, database), 'settings')
})
