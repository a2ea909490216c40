/** What a statement of the lane asks for: one measurement, its rows by time, tags and values, and either aggregates of groups or nothing else. */
import type { Node } from '../ast.ts'
import type { SqlMeasurement, SqlMeasurementColumn, TagHint } from '../host.ts'

/** Of a field, or of the rows and their times; what is not finite, or absent, is no value. `distinct` counts the values of a tag, `first` and `last` are by the time, a quantile lies between values. */
export type AggregateKind =
  | ('rows' | 'distinct' | 'count' | 'sum' | 'avg' | 'min' | 'max' | 'first' | 'last')
  | ('quantile' | 'stddev_samp' | 'stddev_pop' | 'var_samp' | 'var_pop')

/** Types of fields that statements of the lane read. */
export type NumberType = 'float64' | 'int64' | 'uint64'

export interface NumberField {
  name: string
  type: NumberType
}

export interface AggregatePlan {
  kind: AggregateKind
  /** The field's name in SQL, or that of a computed one; undefined of `rows`, of tags and of times. */
  field: string | undefined
  /** What is aggregated; undefined of `rows` and of tags. `ones`: of each row that it takes 1. */
  type: NumberType | 'time' | 'ones' | undefined
  /** Of `distinct`: the tag's name in SQL. */
  tag?: string
  /** It takes the rows that satisfy these conditions, by their number in the plan; undefined: all. */
  where?: number
  /** All other rows have 0, instead of none. */
  zeros?: true
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

/** Arithmetic over `L` (expressions.ts). */
export type Arithmetic<L> = { kind: 'number'; value: number } | L | ArithmeticCall<L>

export interface ArithmeticCall<L> {
  kind: 'call'
  name: string
  operands: readonly Arithmetic<L>[]
  /** Its result is a 64-bit integer, otherwise a double. */
  whole?: true
}

/** Made of a group's aggregates. */
export type Expression = Arithmetic<{ kind: 'aggregate'; aggregate: number }>

/** Made of the fields of a row, by their names in SQL. */
export type RowExpression = Arithmetic<{ kind: 'field'; field: string }>

/** A field that no row is stored with. */
export interface ComputedField {
  /** As no column is called. */
  name: string
  expression: RowExpression
}

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

/** A row must satisfy all filters of one of them. */
export type Alternatives = readonly (readonly FilterPlan[])[]

/** What rows must satisfy by their tags and values. */
export interface Conditions {
  tagFilters: readonly TagFilter[]
  filters: readonly FilterPlan[]
  anyOf: readonly Alternatives[]
}

/** What references within a statement mean; undefined for what is none, or not in the spelling of its declaration. */
export interface ColumnNames {
  column(node: Node): SqlMeasurementColumn | undefined
  tag(node: Node): string | undefined
  /** A field, or one that is computed of others. */
  field(node: Node): NumberField | undefined
  /** The field that one number of a row less another is. */
  difference(left: Node, right: Node): string | undefined
}

/** Which rows are read. */
export interface ScanPlan extends Conditions {
  measurement: SqlMeasurement
  /** Nanoseconds, inclusive. */
  time: [low: bigint, high: bigint]
  tags: readonly TagHint[]
  /** Fields that the rest of it names. */
  computed: readonly ComputedField[]
  offset: number
  limit: number
}

/** Rows as they are. */
export interface RowsPlan extends ScanPlan {
  kind: 'rows'
  outputs: readonly ColumnPlan[]
  order: readonly (Omit<OrderPlan, 'value'> & { column: ColumnPlan })[]
}

/** A column by its name in SQL, or a computed field: the name in the answer is the same unless it has an alias. */
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
  /** Of rows that some aggregates take. */
  conditions: readonly Conditions[]
  expressions: readonly Expression[]
  /** Groups that satisfy one of these not are left out. */
  having: readonly Compared<Exclude<ValueRef, { key: number }>>[]
  outputs: readonly OutputPlan[]
  order: readonly OrderPlan[]
}

export type LanePlan = RowsPlan | GroupsPlan
