/** What a statement of the lane asks for: one measurement, its rows by time, tags and values, and either aggregates of groups or nothing else. */
import type { SqlMeasurement, TagHint } from '../host.ts'

/** Of a field, or of the rows and their times; what is not finite, or absent, is no value. `first` and `last` are by the time, a quantile lies between values. */
export type AggregateKind =
  | ('rows' | 'count' | 'sum' | 'avg' | 'min' | 'max' | 'first' | 'last')
  | ('quantile' | 'stddev_samp' | 'stddev_pop' | 'var_samp' | 'var_pop')

/** Types of fields that statements of the lane read. */
export type NumberType = 'float64' | 'int64' | 'uint64'

export interface AggregatePlan {
  kind: AggregateKind
  /** The field's name in SQL; undefined of `rows`, and of times. */
  field: string | undefined
  /** What is aggregated; undefined of `rows`. */
  type: NumberType | 'time' | undefined
  /** Of a quantile, from 0 to 1. */
  fraction?: number
}

export type KeyPlan =
  /** The tag's name in SQL. */
  | { kind: 'tag'; tag: string }
  /** Milliseconds: t - floorMod(t - anchor, step). */
  | { kind: 'bucket'; step: number; anchor: number }

/** A key, an aggregate or an expression by its number. */
export type ValueRef = { key: number } | { aggregate: number } | { expression: number }

/** Made of a group's aggregates (expressions.ts). */
export type Expression =
  | { kind: 'number'; value: number }
  | { kind: 'aggregate'; aggregate: number }
  | { kind: 'call'; name: string; operands: readonly Expression[] }

export interface OutputPlan {
  name: string
  value: ValueRef
}

export interface OrderPlan {
  value: ValueRef
  descending: boolean
  nullsFirst: boolean
}

export type Comparison = '=' | '<>' | '<' | '<=' | '>' | '>='

/** Series whose tag does not satisfy it, or without the tag, are left out. */
export interface TagFilter {
  /** SQL name. */
  tag: string
  /** The tag has one of the values, or is like the pattern. */
  is: { oneOf: readonly string[] } | { like: string }
  negated: boolean
}

/** Of something with a number. */
export interface Compared<T> {
  of: T
  comparison: Comparison
  value: number
}

export type FilterPlan = Omit<Compared<string>, 'of'> & { field: string }

/** Which rows are read. */
export interface ScanPlan {
  measurement: SqlMeasurement
  /** Nanoseconds, inclusive. */
  time: [low: bigint, high: bigint]
  tags: readonly TagHint[]
  tagFilters: readonly TagFilter[]
  filters: readonly FilterPlan[]
  offset: number
  limit: number
}

/** Rows as they are. */
export interface RowsPlan extends ScanPlan {
  kind: 'rows'
  outputs: readonly ColumnPlan[]
  order: readonly (Omit<OrderPlan, 'value'> & { column: ColumnPlan })[]
}

/** A column by its name in SQL, which is that of the answer too unless it has an alias. */
export interface ColumnPlan {
  role: 'time' | 'tag' | 'field'
  column: string
  name: string
  /** A field's. */
  type?: NumberType
}

export interface GroupsPlan extends ScanPlan {
  kind: 'groups'
  /** False: all rows are one group, also if there are none. */
  grouped: boolean
  keys: readonly KeyPlan[]
  aggregates: readonly AggregatePlan[]
  expressions: readonly Expression[]
  /** Groups that satisfy one of these not are left out. */
  having: readonly Compared<Exclude<ValueRef, { key: number }>>[]
  outputs: readonly OutputPlan[]
  order: readonly OrderPlan[]
}

export type LanePlan = RowsPlan | GroupsPlan
