/**
 * Overloads of DuckDB's own functions for TIMESTAMP_NS, registered under their names, so that its binder finds them wherever the type of a value turns out
 * to be that: in frames of windows, lists, structs, and all that time-arithmetic.ts does not know the type of. Without them the binder casts to microseconds.
 */
import duckdb from '@duckdb/node-bindings'
import { SvcError } from 'svcdb/lib/errors'
import { civilFromDays, daysInMonth, floorDiv, OUT_OF_RANGE } from 'svcdb/lib/time-buckets'
import { copyValidity, copyValues } from '../duckdb/vector-writer.ts'
import { readValidity, textAt } from '../duckdb/vectors.ts'
import { addSpan } from './fold.ts'
import { defineScalar } from './scalar-function.ts'
import { truncate, truncationOf } from './truncation.ts'

const { Type } = duckdb
const VECTOR_ROWS = 2048
const DAY = 86_400_000_000_000n

/** Times that fit 64 bits of nanoseconds, but for those that DuckDB has for infinity. */
const FIRST = -(2n ** 63n) + 2n
const LAST = 2n ** 63n - 2n

/** @throws SQL_ERROR for a time outside of them. */
export function checked(ns: bigint): bigint {
  if (ns >= FIRST && ns <= LAST) return ns
  throw new SvcError('SQL_ERROR', OUT_OF_RANGE)
}

/** The values of one argument: one byte of validity a row, undefined when all are there. */
interface Column {
  vector: duckdb.Vector
  validity: Uint8Array | undefined
}

type Row = (row: number) => bigint

interface Overload {
  names: string[]
  parameters: duckdb.Type[]
  returns: duckdb.Type
  /** @returns what computes a row whose arguments are all there. */
  open(columns: Column[], rows: number): Row
}

const OVERLOADS: Overload[] = [
  // What the printer writes as arithmetic where the time is a short text.
  {
    names: ['__svc_floor'],
    parameters: [Type.BIGINT, Type.BIGINT, Type.BIGINT],
    returns: Type.BIGINT,
    open([ns, step, anchor], n) {
      const [values, steps, anchors] = [ns, step, anchor].map((column) => times(column, n))
      return (row) => checked(floorDiv(values[row] - anchors[row], steps[row]) * steps[row] + anchors[row])
    },
  },
  {
    names: ['__svc_microseconds'],
    parameters: [Type.TIMESTAMP_NS],
    returns: Type.TIMESTAMP,
    open([t], n) {
      const time = times(t, n)
      return (row) => floorDiv(time[row], 1000n)
    },
  },
  {
    names: ['+', 'add'],
    parameters: [Type.TIMESTAMP_NS, Type.INTERVAL],
    returns: Type.TIMESTAMP_NS,
    open: ([t, i], n) => moved(times(t, n), intervals(i, n), 1),
  },
  {
    names: ['+', 'add'],
    parameters: [Type.INTERVAL, Type.TIMESTAMP_NS],
    returns: Type.TIMESTAMP_NS,
    open: ([i, t], n) => moved(times(t, n), intervals(i, n), 1),
  },
  {
    names: ['-', 'subtract'],
    parameters: [Type.TIMESTAMP_NS, Type.INTERVAL],
    returns: Type.TIMESTAMP_NS,
    open: ([t, i], n) => moved(times(t, n), intervals(i, n), -1),
  },
  {
    names: ['date_trunc', 'datetrunc'],
    parameters: [Type.VARCHAR, Type.TIMESTAMP_NS],
    returns: Type.TIMESTAMP_NS,
    open([unit, t], n) {
      const [unitAt, time] = [texts(unit, n), times(t, n)]
      return (row) => checked(truncate(time[row], unitOf(unitAt(row), 'date_trunc')))
    },
  },
  {
    names: ['date_sub', 'datesub'],
    parameters: [Type.VARCHAR, Type.TIMESTAMP_NS, Type.TIMESTAMP_NS],
    returns: Type.BIGINT,
    open([unit, a, b], n) {
      const [unitAt, from, to] = [texts(unit, n), times(a, n), times(b, n)]
      return (row) => elapsed(from[row], to[row], unitAt(row))
    },
  },
]

export function registerTimeFunctions(connection: duckdb.Connection): void {
  const values = new BigInt64Array(VECTOR_ROWS)
  const bits = new Uint8Array(VECTOR_ROWS / 8)
  for (const { names, parameters, returns, open } of OVERLOADS) {
    for (const name of names) {
      defineScalar(connection, name, parameters, returns, (input, output, n) => {
        const columns = parameters.map((_, i) => columnAt(input, i, n))
        const row = open(columns, n)
        const nulls = columns.flatMap(({ validity }) => (validity === undefined ? [] : [validity]))
        bits.fill(255, 0, (n + 7) >> 3)
        for (let i = 0; i < n; i++) {
          if (nulls.some((validity) => validity[i] === 0)) bits[i >> 3] &= ~(1 << (i & 7))
          else values[i] = row(i)
        }
        copyValues(output, values.buffer, 0, n * 8)
        if (nulls.length > 0) copyValidity(output, bits.buffer, 0, n)
      })
    }
  }
}

function columnAt(input: duckdb.DataChunk, i: number, rows: number): Column {
  const vector = duckdb.data_chunk_get_vector(input, i)
  return { vector, validity: readValidity(vector, rows) }
}

function times({ vector }: Column, rows: number): BigInt64Array {
  const data = duckdb.vector_get_data(vector, rows * 8)
  return new BigInt64Array(data.buffer, data.byteOffset, rows)
}

interface Intervals {
  /** Two a row: months and days. */
  calendar: Int32Array
  /** Two a row: the calendar parts, and microseconds. */
  micros: BigInt64Array
}

function intervals({ vector }: Column, rows: number): Intervals {
  const data = duckdb.vector_get_data(vector, rows * 16)
  return { calendar: new Int32Array(data.buffer, data.byteOffset, rows * 4), micros: new BigInt64Array(data.buffer, data.byteOffset, rows * 2) }
}

/** Texts, mostly the same in every row: a slot of 16 bytes holds a short one, or where a long one lies. */
function texts({ vector }: Column, rows: number): (row: number) => string {
  const data = duckdb.vector_get_data(vector, rows * 16)
  const slots = new BigUint64Array(data.buffer, data.byteOffset, rows * 2)
  let [head, tail, text] = [-1n, -1n, '']
  return (row) => {
    if (slots[row * 2] === head && slots[row * 2 + 1] === tail) return text
    head = slots[row * 2]
    tail = slots[row * 2 + 1]
    text = textAt(vector, row)
    return text
  }
}

function moved(time: BigInt64Array, { calendar, micros }: Intervals, sign: 1 | -1): Row {
  const by = BigInt(sign)
  let [days, us, shift] = [0, 0n, 0n]
  return (row) => {
    const months = calendar[row * 4]
    if (months !== 0) return checked(addSpan(time[row], { months, days: calendar[row * 4 + 1], ns: micros[row * 2 + 1] * 1000n }, sign))
    if (calendar[row * 4 + 1] !== days || micros[row * 2 + 1] !== us) {
      days = calendar[row * 4 + 1]
      us = micros[row * 2 + 1]
      shift = by * (BigInt(days) * DAY + us * 1000n)
    }
    return checked(time[row] + shift)
  }
}

function unitOf(name: string, what: string): NonNullable<ReturnType<typeof truncationOf>> {
  const unit = truncationOf(name)
  if (unit === undefined) throw new SvcError('SQL_ERROR', `cannot compute ${what}: extract specifier "${name}" not recognized`)
  return unit
}

/** Whole units from one time to another, negative when that is the earlier one. */
function elapsed(from: bigint, to: bigint, unit: string): bigint {
  const truncation = unitOf(unit, 'date_sub')
  if (truncation.kind === 'fixed') return (to - from) / truncation.step
  const count = truncation.kind === 'isoyear' ? 12 : truncation.count
  return BigInt(Math.trunc((from <= to ? wholeMonths(from, to) : -wholeMonths(to, from)) / count))
}

/** A month is over on the same day and time of the next, or where that has no such day, on its last. */
function wholeMonths(from: bigint, to: bigint): number {
  const [a, b] = [from, to].map((ns) => ({ ...civilFromDays(Number(floorDiv(ns, DAY))), clock: ns - floorDiv(ns, DAY) * DAY }))
  const months = (b.year - a.year) * 12 + b.month - a.month
  const last = b.day === daysInMonth(b.year, b.month)
  const day = last && a.day > b.day ? b.day : a.day
  return b.day < day || (b.day === day && b.clock < a.clock) ? months - 1 : months
}
