/** What a parse is told and what it answers. */
import type { LineLimits } from './limits.ts'
import type { Precision } from './line-time.ts'

export interface LineFailure {
  /** Physical line of the body, from 1. */
  line: number
  code: string
  message: string
}

export interface ParseOptions {
  precision: Precision
  /** The time of points that carry none, nanoseconds since the epoch. */
  now: bigint
  /** Lines with points above this end the parse. */
  maxPoints: number
  /** A field that is `NaN` has no value, and is left out; a line without others is passed over. Otherwise it is refused. */
  nanIsNull?: boolean
}

export interface ParseOutcome {
  rows: number
  rejected: number
  /** The first failures, in order. */
  failures: LineFailure[]
  /** There were more points than allowed; nothing of the batch should be written. */
  tooMany: boolean
}

export interface ParserOptions {
  limits: LineLimits
  /** Bytes of series keys kept; the table is emptied when they are exceeded. */
  maxInternedBytes: number
  /** Failures of one body kept with their text; the others are counted. */
  maxFailures: number
  /** Tags that every point gets: key, value, key, value. Names that a series key may have. */
  tags?: readonly string[]
  /** Any number, best a random one: seeds the hash of series keys. */
  seed: number
}
