/** Changes for subscribers, after they are durable and visible. Points are decoded only when a subscriber asks. */
import type { Change, ChangedPoint } from 'svcdb'
import type { Column } from 'svcdb/lib/columns'
import { isStaleHistogram } from 'svcdb/lib/histogram'
import type { Schema } from '../catalog/schema.ts'
import type { SeriesIndex } from '../series/series-index.ts'
import type { FieldDef } from '../threads/definitions.ts'
import type { TableRows } from '../wal/record.ts'

const decoder = new TextDecoder()

export class Changes {
  private readonly listeners = new Set<(change: Change) => void>()
  private sequence = 0
  private readonly schema: Schema
  private readonly index: SeriesIndex
  private readonly failed: (error: unknown) => void

  /** @param failed called when a listener throws; others are still called. */
  constructor(schema: Schema, index: SeriesIndex, failed: (error: unknown) => void) {
    this.schema = schema
    this.index = index
    this.failed = failed
  }

  subscribe(listener: (change: Change) => void): () => void {
    this.listeners.add(listener)
    return () => this.listeners.delete(listener)
  }

  /** @returns whether a listener may keep the change: its buffers must then not be used again. */
  written(namespace: string, tables: TableRows[], heap: Uint8Array, backfill: boolean): boolean {
    if (this.listeners.size === 0) return false
    const rows = tables.reduce((sum, table) => sum + table.rows, 0)
    this.publish({ kind: 'write', namespace, sequence: ++this.sequence, rows, backfill, points: () => this.points(tables, heap) })
    return true
  }

  /** @param deleted the series. @param end excluded. */
  deleted(namespace: string, measurement: string, deleted: () => Int32Array, start: bigint | undefined, end: bigint | undefined): void {
    if (this.listeners.size === 0) return
    const numbers = deleted()
    // Tags stay when series are given back: nothing is made of them before a listener looks.
    const series = (): Iterable<Record<string, string>> => this.tagsOfAll(numbers)
    const range = { ...(start === undefined ? {} : { start }), ...(end === undefined ? {} : { end }) }
    this.publish({ kind: 'series_deleted', namespace, sequence: ++this.sequence, measurement, ...range, series })
  }

  dropped(namespace: string, measurement: string): void {
    if (this.listeners.size > 0) this.publish({ kind: 'measurement_dropped', namespace, sequence: ++this.sequence, measurement })
  }

  private publish(change: Change): void {
    for (const listener of this.listeners) {
      try {
        listener(change)
      } catch (error) {
        this.failed(error)
      }
    }
  }

  private *tagsOfAll(series: Int32Array): Generator<Record<string, string>> {
    for (const number of series) yield this.tagsOf(number)
  }

  private tagsOf(series: number): Record<string, string> {
    const pairs = this.index.tagsOf(series)
    const tags: Record<string, string> = {}
    for (let i = 0; i < pairs.length; i += 2) tags[pairs[i]] = pairs[i + 1]
    return tags
  }

  private *points(tables: TableRows[], heap: Uint8Array): Generator<ChangedPoint> {
    for (const table of tables) {
      for (let row = 0; row < table.rows; row++) {
        const series = table.series[row]
        const tags = this.tagsOf(series)
        const fields: ChangedPoint['fields'] = []
        for (const [i, column] of table.columns.entries()) if (isShown(column, row, heap)) fields.push(fieldOf(table.fields[i], column, row, heap))
        const time = (BigInt(table.time[row * 2 + 1]) << 32n) | BigInt(table.time[row * 2] >>> 0)
        yield { measurement: this.schema.any(this.index.measurementOf(series))?.name ?? '', tags, time, fields }
      }
    }
  }
}

/** Whether the row has a value that readers are to see. */
function isShown(column: Column, row: number, heap: Uint8Array): boolean {
  return column.has(row) && !(column.nonFinite && !Number.isFinite(column.f64[row])) && !isMarker(column, row, heap)
}

function isMarker({ type, i32 }: Column, row: number, heap: Uint8Array): boolean {
  return type === 'histogram' && isStaleHistogram(heap, i32[row * 2], i32[row * 2] + i32[row * 2 + 1])
}

function fieldOf(field: FieldDef, column: Column, row: number, heap: Uint8Array): ChangedPoint['fields'][number] {
  const { name, type, scale } = field
  return { name, type, ...(type === 'decimal' ? { scale } : {}), value: valueAt(column, row, heap) }
}

function valueAt(column: Column, row: number, heap: Uint8Array): number | bigint | boolean | string | Uint8Array {
  const { i32 } = column
  switch (column.type) {
    case 'float64':
      return column.f64[row]
    case 'bool':
      return column.u8[row] === 1
    case 'int64':
      return (BigInt(i32[row * 2 + 1]) << 32n) | BigInt(i32[row * 2] >>> 0)
    case 'uint64':
      return (BigInt(i32[row * 2 + 1] >>> 0) << 32n) | BigInt(i32[row * 2] >>> 0)
    case 'decimal': {
      let value = BigInt(i32[row * 4 + 3])
      for (let lane = 2; lane >= 0; lane--) value = (value << 32n) | BigInt(i32[row * 4 + lane] >>> 0)
      return value
    }
    default: {
      const bytes = heap.slice(i32[row * 2], i32[row * 2] + i32[row * 2 + 1])
      return column.type === 'string' ? decoder.decode(bytes) : bytes
    }
  }
}
