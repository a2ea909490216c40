/**
 * The syntax tree of a PromQL expression, as the parser leaves it: types checked, defaults not yet filled in.
 * Durations and times are milliseconds; `pos` is in UTF-16 units of the query text, end exclusive.
 */
import type { MatcherOp } from 'svcdb'

export interface Pos {
  start: number
  end: number
}

export type ValueType = 'none' | 'scalar' | 'vector' | 'matrix' | 'string'

/** Milliseconds, or an expression over durations, in seconds, that needs the query's step and range to be worked out. */
export type Duration = number | DurationExpr

export type DurationExpr =
  /** `bare`: written as a plain number, not with a unit. */
  | { kind: 'duration'; seconds: number; bare: boolean; pos: Pos }
  | { kind: 'step'; pos: Pos }
  | { kind: 'range'; pos: Pos }
  | { kind: 'duration-unary'; op: '+' | '-'; expr: DurationExpr; pos: Pos }
  | { kind: 'duration-binary'; op: '+' | '-' | '*' | '/' | '%' | '^'; lhs: DurationExpr; rhs: DurationExpr; pos: Pos }
  | { kind: 'duration-call'; name: 'min' | 'max'; args: [DurationExpr, DurationExpr]; pos: Pos }
  | { kind: 'duration-paren'; expr: DurationExpr; pos: Pos }

/** `@ 12.5` in milliseconds, or `@ start()` / `@ end()`. */
export type AtModifier = number | 'start' | 'end'

export interface LabelMatcher {
  name: string
  op: MatcherOp
  value: string
}

export interface NumberLiteral {
  kind: 'number'
  value: number
  /** Written as a duration, such as `5m`. */
  duration?: true
  pos: Pos
}

interface StringLiteral {
  kind: 'string'
  value: string
  pos: Pos
}

interface ParenExpr {
  kind: 'paren'
  expr: Expr
  pos: Pos
}

export interface UnaryExpr {
  kind: 'unary'
  op: '+' | '-'
  expr: Expr
  pos: Pos
}

export type ArithmeticOp = '+' | '-' | '*' | '/' | '%' | '^' | 'atan2'
export type ComparisonOp = '==' | '!=' | '<' | '<=' | '>' | '>='
/** Trim operators on histograms. */
type TrimOp = '</' | '>/'
export type SetOp = 'and' | 'or' | 'unless'
export type BinaryOp = ArithmeticOp | ComparisonOp | TrimOp | SetOp

export interface VectorMatching {
  card: 'one-to-one' | 'many-to-one' | 'one-to-many' | 'many-to-many'
  /** Match on just `labels`; else on all but those. */
  on: boolean
  labels: string[]
  /** Labels that group_left or group_right takes from the one side. */
  include: string[]
  /** `fill`, `fill_left`, `fill_right`: the value that stands in for a missing side. */
  fillLeft?: number
  fillRight?: number
}

export interface BinaryExpr {
  kind: 'binary'
  op: BinaryOp
  lhs: Expr
  rhs: Expr
  /** Present when both sides are vectors. */
  matching?: VectorMatching
  returnBool: boolean
  pos: Pos
}

export type AggregateOp =
  | 'sum'
  | 'avg'
  | 'min'
  | 'max'
  | 'count'
  | 'group'
  | 'stddev'
  | 'stdvar'
  | 'topk'
  | 'bottomk'
  | 'quantile'
  | 'count_values'
  | 'limitk'
  | 'limit_ratio'

export interface AggregateExpr {
  kind: 'aggregate'
  op: AggregateOp
  expr: Expr
  /** Of topk, bottomk, quantile, count_values, limitk, limit_ratio. */
  param?: Expr
  grouping: string[]
  without: boolean
  pos: Pos
}

export interface CallExpr {
  kind: 'call'
  /** Name in the function table (functions/signatures.ts). */
  name: string
  args: Expr[]
  type: ValueType
  pos: Pos
}

export interface VectorSelector {
  kind: 'vector'
  /** The metric name written before the braces, '' when there is none. Also in `matchers`. */
  name: string
  matchers: LabelMatcher[]
  offset: Duration
  at?: AtModifier
  /** Of range vectors: `anchored` and `smoothed`; `smoothed` also of instant vectors. */
  modifier?: 'anchored' | 'smoothed'
  pos: Pos
}

export interface MatrixSelector {
  kind: 'matrix'
  vector: VectorSelector
  range: Duration
  pos: Pos
}

export interface SubqueryExpr {
  kind: 'subquery'
  expr: Expr
  range: Duration
  /** Absent: the engine's default interval. */
  step?: Duration
  offset: Duration
  at?: AtModifier
  pos: Pos
}

export type Expr =
  | NumberLiteral
  | StringLiteral
  | ParenExpr
  | UnaryExpr
  | BinaryExpr
  | AggregateExpr
  | CallExpr
  | VectorSelector
  | MatrixSelector
  | SubqueryExpr
