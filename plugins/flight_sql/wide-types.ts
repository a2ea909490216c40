/**
 * Results in the few types that all clients read: narrow integers as Int64, Float32 as Float64, timestamps in nanoseconds. Nothing is lost by it. Grafana's
 * Flight SQL data source shows no other numbers, and takes every timestamp for nanoseconds.
 */
import type { SqlChunk, SqlColumn, SqlVector } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'

type Widen = (vector: SqlVector) => SqlVector

const INTEGER = /^U?Int(?:8|16|32)$/
const TIMESTAMP = /^Timestamp\((s|ms|us)(, .+)?\)$/
const NANOSECONDS: Record<string, bigint> = { s: 1_000_000_000n, ms: 1_000_000n, us: 1000n }
const MAX = 2n ** 63n - 1n

export class WideTypes {
  readonly columns: SqlColumn[]
  private readonly widen: (Widen | undefined)[]
  private readonly same: boolean

  constructor(columns: readonly SqlColumn[]) {
    const widened = columns.map((column) => wider(column))
    this.columns = columns.map((column, i) => ({ name: column.name, type: widened[i]?.type ?? column.type }))
    this.widen = widened.map((one) => one?.widen)
    this.same = this.widen.every((one) => one === undefined)
  }

  /** @throws SQL_ERROR for a timestamp that nanoseconds do not reach. */
  chunk(chunk: SqlChunk): SqlChunk {
    if (this.same) return chunk
    return { rows: chunk.rows, columns: chunk.columns.map((vector, i) => this.widen[i]?.(vector) ?? vector) }
  }
}

function wider({ name, type }: SqlColumn): { type: string; widen: Widen } | undefined {
  if (INTEGER.test(type)) return { type: 'Int64', widen: (vector) => ({ ...vector, values: integers(vector.values as ArrayLike<number>) }) }
  if (type === 'Float32') return { type: 'Float64', widen: (vector) => ({ ...vector, values: Float64Array.from(vector.values as ArrayLike<number>) }) }
  const [, unit, zone = ''] = TIMESTAMP.exec(type) ?? []
  if (unit === undefined) return undefined
  return { type: `Timestamp(ns${zone})`, widen: (vector) => timestamps(name, vector, NANOSECONDS[unit]) }
}

function integers(values: ArrayLike<number>): BigInt64Array {
  const out = new BigInt64Array(values.length)
  const halves = new Int32Array(out.buffer)
  // Two halves of 32 bits: no BigInt a value.
  for (let i = 0; i < values.length; i++) {
    const value = values[i]
    halves[2 * i] = value | 0
    halves[2 * i + 1] = value < 0 ? -1 : 0
  }
  return out
}

function timestamps(name: string, { values, validity }: SqlVector, factor: bigint): SqlVector {
  const times = values as ArrayLike<bigint>
  const most = MAX / factor
  const out = new BigInt64Array(times.length)
  for (let i = 0; i < times.length; i++) {
    if (validity !== undefined && validity[i] === 0) continue
    const time = times[i]
    if (time > most || time < -most) {
      throw new SvcError(
        'SQL_ERROR',
        `cannot answer column "${name.slice(0, 256)}": it has a time before 1677 or after 2262, which nanoseconds do not reach; cast it to VARCHAR`,
      )
    }
    out[i] = time * factor
  }
  return validity === undefined ? { values: out } : { values: out, validity }
}
