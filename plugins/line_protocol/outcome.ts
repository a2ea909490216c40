/** What a parse is told and what it answers. */
import type { LineLimits } from './limits.ts'

export type Precision = 'ns' | 'us' | 'ms' | 's' | 'm' | 'h'

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

/** Digits behind the unit of the precision that belong to the nanosecond part of a time, and the factor of what stands before. */
export const TIME_UNITS: Record<Precision, { tailDigits: number; leadFactor: number }> = {
  ns: { tailDigits: 9, leadFactor: 1 },
  us: { tailDigits: 6, leadFactor: 1 },
  ms: { tailDigits: 3, leadFactor: 1 },
  s: { tailDigits: 0, leadFactor: 1 },
  m: { tailDigits: 0, leadFactor: 60 },
  h: { tailDigits: 0, leadFactor: 3600 },
}
