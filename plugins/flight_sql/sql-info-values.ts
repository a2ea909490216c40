/** What CommandGetSqlInfo tells, by number (FlightSql.proto, SqlInfo). */
import { VERSION } from 'svcdb'
import type { SqlInfoValue } from './sql-info.ts'

const words = (text: string): string[] => text.trim().split(/\s+/)

/** Reserved words of the dialect. */
const KEYWORDS = words(`
  all analyse analyze and any array as asc asymmetric both case cast check collate column constraint create default deferrable desc describe distinct do
  else end except false fetch for foreign from group having in initially intersect into lambda lateral leading limit not null offset on only or order
  pivot pivot_longer pivot_wider placing primary qualify references returning select show some summarize symmetric table then to trailing true union
  unique unpivot using variadic when where window with
`)
const NUMERIC = words(`
  abs acos acosh asin asinh atan atan2 atanh bit_count cbrt ceil ceiling cos cosh cot degrees even exp factorial floor gamma gcd greatest isfinite isinf
  isnan lcm least lgamma ln log log10 log2 mod nextafter pi pow power radians random round round_even sign signbit sin sinh sqrt tan tanh trunc
`)
const STRING = words(`
  ascii bit_length char_length character_length chr concat concat_ws contains ends_with format from_base64 hex instr left length levenshtein lower lpad
  ltrim md5 octet_length position printf regexp_extract regexp_full_match regexp_matches regexp_replace repeat replace reverse right rpad rtrim sha256
  split_part starts_with string_split strip_accents strlen strpos substr substring to_base64 translate trim unhex unicode upper
`)
const SYSTEM = words('coalesce gen_random_uuid hash ifnull nullif typeof uuid')
const DATETIME = words(`
  age century current_date current_localtimestamp date_add date_diff date_part date_sub date_trunc datediff datepart day dayname dayofmonth dayofweek
  dayofyear days_in_month decade epoch epoch_ms epoch_ns epoch_us era hour last_day make_date make_time make_timestamp make_timestamp_ns microsecond
  millisecond minute month monthname nanosecond now quarter second strftime strptime time_bucket timezone to_timestamp today week weekday weekofyear year
  yearweek
`)

/** Numbers of SqlSupportsConvert. */
const BIGINT = 0
const BINARY = 1
const BIT = 2
const DATE = 4
const DECIMAL = 5
const FLOAT = 6
const INTEGER = 7
const NUMERIC_TYPE = 12
const REAL = 13
const SMALLINT = 14
const TIME = 15
const TIMESTAMP = 16
const TINYINT = 17
const VARBINARY = 18
const VARCHAR = 19
const NUMBERS = [BIGINT, BIT, DECIMAL, FLOAT, INTEGER, NUMERIC_TYPE, REAL, SMALLINT, TINYINT, VARCHAR]
const CONVERSIONS = new Map<number, number[]>([
  ...[BIGINT, BIT, DECIMAL, FLOAT, INTEGER, NUMERIC_TYPE, REAL, SMALLINT, TINYINT].map((type): [number, number[]] => [type, NUMBERS]),
  [BINARY, [VARBINARY, VARCHAR]],
  [DATE, [DATE, TIMESTAMP, VARCHAR]],
  [TIME, [TIME, VARCHAR]],
  [TIMESTAMP, [DATE, TIME, TIMESTAMP, VARCHAR]],
  [VARBINARY, [BINARY, VARCHAR]],
  [VARCHAR, [...NUMBERS, BINARY, DATE, TIME, TIMESTAMP, VARBINARY]],
])

/** Characters of a text that the SQL gate reads. */
const MAX_STATEMENT_LENGTH = 1_048_576
const CASE_INSENSITIVE = 1
const NULLS_AT_END = 3
const TRANSACTION_NONE = 0
/** Bits: outer joins, GROUP BY, subqueries, unions, result sets as the enums number them. */
const FULL_OUTER_JOINS = 2
const GROUP_BY_UNRELATED_AND_BEYOND = 0b11
const CORE_AND_MINIMUM_GRAMMAR = 0b11
const ANSI92_ENTRY_AND_INTERMEDIATE = 0b11
const ALL_SUBQUERIES = 0b1111
const UNION_AND_UNION_ALL = 0b11
const ISOLATION_NONE = 0b1
const FORWARD_ONLY = 0b10
const READ_ONLY_ROWS = 0b10

interface SqlInfoFacts {
  /** Milliseconds that a prepared statement is kept after its last use. */
  statementTimeoutMs: number
  maxStatements: number
}

export function sqlInfoValues(facts: SqlInfoFacts): Map<number, SqlInfoValue> {
  const yes = { bool: true }
  const no = { bool: false }
  /** No limit, or none that is known here. */
  const unlimited = { bigint: 0 }
  const values: [number, SqlInfoValue][] = [
    [0, { string: 'svc' }],
    [1, { string: VERSION }],
    [2, { string: '1.3' }],
    // Writing is by bulk ingestion; SQL itself reads.
    [3, no],
    [4, yes],
    [5, no],
    [8, { int32: TRANSACTION_NONE }],
    [9, yes],
    [10, yes],
    [11, no],
    [100, { int32: facts.statementTimeoutMs }],
    [101, { int32: 0 }],
    [500, no],
    [501, no],
    [502, no],
    [503, { int32: CASE_INSENSITIVE }],
    [504, { string: '"' }],
    [505, { int32: CASE_INSENSITIVE }],
    [506, yes],
    [507, { int32: NULLS_AT_END }],
    [508, { strings: KEYWORDS }],
    [509, { strings: NUMERIC }],
    [510, { strings: STRING }],
    [511, { strings: SYSTEM }],
    [512, { strings: DATETIME }],
    [513, { string: '\\' }],
    [514, { string: '$' }],
    [515, yes],
    [516, yes],
    [517, { conversions: CONVERSIONS }],
    [518, yes],
    [519, no],
    [520, yes],
    [521, yes],
    [522, { int32: GROUP_BY_UNRELATED_AND_BEYOND }],
    [523, yes],
    [524, no],
    [525, { int32: CORE_AND_MINIMUM_GRAMMAR }],
    [526, { int32: ANSI92_ENTRY_AND_INTERMEDIATE }],
    [527, no],
    [528, { int32: FULL_OUTER_JOINS }],
    [529, { string: 'schema' }],
    [530, { string: 'procedure' }],
    [531, { string: 'catalog' }],
    [532, yes],
    [533, { int32: 0 }],
    [534, { int32: 0 }],
    [535, { int32: 0 }],
    [536, no],
    [537, no],
    [538, { int32: ALL_SUBQUERIES }],
    [539, yes],
    [540, { int32: UNION_AND_UNION_ALL }],
    [541, unlimited],
    [542, unlimited],
    [543, unlimited],
    [544, unlimited],
    [545, unlimited],
    [546, unlimited],
    [547, unlimited],
    [548, unlimited],
    [549, unlimited],
    [550, unlimited],
    [551, unlimited],
    [552, unlimited],
    [553, unlimited],
    [554, unlimited],
    [555, unlimited],
    [556, no],
    [557, { bigint: MAX_STATEMENT_LENGTH }],
    [558, { bigint: facts.maxStatements }],
    [559, unlimited],
    [560, unlimited],
    [561, unlimited],
    // An ordinal as well, but the JDBC driver takes no other than a 64-bit one.
    [562, { bigint: TRANSACTION_NONE }],
    [563, no],
    [564, { int32: ISOLATION_NONE }],
    [565, no],
    [566, no],
    [567, { int32: FORWARD_ONLY }],
    [568, { int32: 0 }],
    [569, { int32: READ_ONLY_ROWS }],
    [570, { int32: 0 }],
    [571, { int32: 0 }],
    [572, no],
    [573, no],
    [574, no],
    [575, no],
    [576, no],
  ]
  return new Map(values)
}
