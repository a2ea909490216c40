/** What the SQL layer needs from the engine thread it runs in. */
import type { DuckDBConnection } from '@duckdb/node-api'
import type { FieldType } from 'svcdb'
import type { SqlLimits } from '../sql-limits.ts'
import type { NewestPlan } from './lane/newest.ts'
import type { Place } from './place.ts'
import type { PlanBounds } from './plan-guard.ts'
import type { PluginFunctions } from './plugin-functions/plugin-functions.ts'
import type { StatementRunner } from './statement.ts'

/** A column as SQL sees it: `name` is its name in SQL and in the relation. */
export interface SqlMeasurementColumn {
  name: string
  role: 'time' | 'tag' | 'field'
  /** Of fields. */
  type?: FieldType
  /** Of decimals. */
  scale?: number
}

/** A measurement of one namespace, its columns in the order of `SELECT *`: `_time`, tags, fields. */
export interface SqlMeasurement {
  name: string
  columns: readonly SqlMeasurementColumn[]
}

/** Values are never empty. */
export interface TagValues {
  tag: string
  values: string[]
}

/** Of LIKE, one that is quick to look for (like.ts). */
export interface TagPattern {
  tag: string
  like: string
}

/** Of a regular expression that matches all of a text, with a dot for line ends, too (tag-regex.ts). */
export interface TagRegex {
  tag: string
  regex: string
}

/** The relation holds only rows of series whose tag has one of the values, is like the pattern or matches the expression: the statement does not filter again. */
export type TagHint = TagValues | TagPattern | TagRegex

/** As EXPLAIN shows it. */
export function hintText(hint: TagHint): string {
  const condition = 'values' in hint ? `in [${hint.values.join(', ')}]` : 'like' in hint ? `like ${hint.like}` : `matches ${hint.regex}`
  return ` ${hint.tag} ${condition}`
}

export interface RelationRequest {
  measurement: string
  /** Names from `SqlMeasurement.columns`, at least one, in that order. */
  columns: string[]
  /** Nanoseconds, both ends inclusive; low > high: no row. The relation holds no row outside. */
  time: [low: bigint, high: bigint]
  tags: TagHint[]
  /**
   * Tags that may come as ENUM: faster to group and join by, equal in order and comparison, but not under lag/lead defaults, COLLATE,
   * typeof, hash, enum_* or inside lists. Name a tag only where the tree uses it plainly; result columns are decoded to text anyway.
   */
  enumTags?: readonly string[]
}

/** What a statement that is not bounded is printed for, and run by. */
export interface SqlApart {
  host: SqlHost
  runner: StatementRunner
}

export interface SqlHost {
  connection: DuckDBConnection
  /** Of the statement on the connection; absent: nothing else is at work beside it. */
  place?: Place
  /** Of statements; DEFAULT_LIMITS when absent. */
  limits?: Readonly<SqlLimits>
  /** Of plugins; none when absent. */
  functions?: PluginFunctions
  /** Called for a statement whose memory or time is not bounded by the rows it reads. Absent: it runs on the connection as well. */
  apart?(): SqlApart
  measurements(namespace: string): SqlMeasurement[]
  /** By its exact name: a statement of few measurements costs the same however many there are. */
  measurement(namespace: string, name: string): SqlMeasurement | undefined
  /**
   * SQL text that can stand behind FROM in parentheses: a SELECT with exactly the requested columns. `_time` is TIMESTAMP_NS; tags are
   * VARCHAR, or ENUM whose values are in byte order; an absent tag or field is NULL.
   */
  relation(request: RelationRequest): string
  /**
   * The same rows in two parts, joined by a column `_series`: `rows` has it with `_time` and the fields requested, `tags` (one row a series) with
   * the tags requested. Undefined when grouping rows by series first would gain nothing: few rows a series.
   */
  split?(request: RelationRequest): { rows: string; tags: string } | undefined
  /**
   * The oldest of the times at which a row or a value lies that a plan asks for, in nanoseconds, as of what relations read: rows before it do not matter to the plan.
   * Undefined where that is not known.
   */
  newestFrom?(plan: NewestPlan): Promise<bigint | undefined>
  /** What the relations given so far may read, and nothing else. */
  bounds: PlanBounds
  /** Wall clock for now(), nanoseconds. */
  now(): bigint
}

export const MIN_TIME: bigint = -(2n ** 63n)
export const MAX_TIME: bigint = 2n ** 63n - 1n

/** DuckDB's type of a column. */
export function duckType(column: SqlMeasurementColumn): string {
  if (column.role === 'time') return 'TIMESTAMP_NS'
  if (column.role === 'tag') return 'VARCHAR'
  switch (column.type) {
    case 'float64':
      return 'DOUBLE'
    case 'int64':
      return 'BIGINT'
    case 'uint64':
      return 'UBIGINT'
    case 'bool':
      return 'BOOLEAN'
    case 'decimal':
      return `DECIMAL(38,${column.scale ?? 0})`
    case 'histogram':
      return 'BLOB'
    default:
      return 'VARCHAR'
  }
}
