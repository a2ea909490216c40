/** Points that an upstream refused, as JSON that POST /api/v1/write takes, kept in the bounded file of dead letters. */

import type { Column } from 'svcdb/lib/columns'
import { ProtobufReader, readText } from 'svcdb/lib/protobuf'
import type { DeadLetters } from 'svcdb/lib/source'
import { toNs } from '../common/time.ts'
import { decimalOf, type Rows } from './points.ts'
import type { RefusedRow } from './upstream.ts'

interface KeptPoint {
  measurement: string
  tags: Record<string, string>
  /** Nanoseconds. */
  timestamp: string
  fields: Record<string, unknown>
}

/** Exact integers and what JSON has no form for are text, with the type beside it. */
type Shown = number | boolean | string | { type: string; value: string }

export function pointAt({ records, places }: Rows, position: number): KeptPoint {
  const record = records[places[position * 3]]
  const table = record.tables[places[position * 3 + 1]]
  const row = places[position * 3 + 2]
  const { measurement, tags } = seriesOf(record.keys[table.series[row]])
  // Not by assignment, here and for tags: a name may be __proto__.
  const fields = Object.fromEntries(
    table.columns.flatMap((column, i): [string, Shown][] => (column.has(row) ? [[table.names[i], shown(column, row, record.heap)]] : [])),
  )
  return { measurement, tags, timestamp: String(toNs(table.time[row * 2], table.time[row * 2 + 1])), fields }
}

export function measurementAt({ records, places }: Rows, position: number): string {
  const record = records[places[position * 3]]
  return seriesOf(record.keys[record.tables[places[position * 3 + 1]].series[places[position * 3 + 2]]]).measurement
}

/** @param left those that are refused; without those that are durable afterwards, also where it throws. @throws what the disk says. */
export async function setAside(letters: DeadLetters, rows: Rows, left: Set<RefusedRow>, nowMs: number, namespace: string): Promise<void> {
  const results = await Promise.allSettled(
    [...left].map(async (refused) => {
      const { position, code, message } = refused
      const body = Buffer.from(JSON.stringify(pointAt(rows, position)))
      await letters.add({ time: nowMs, topic: namespace, code, error: message, body })
      left.delete(refused)
    }),
  )
  const failed = results.find((result) => result.status === 'rejected')
  if (failed !== undefined) throw failed.reason
}

function seriesOf(key: Uint8Array): { measurement: string; tags: Record<string, string> } {
  const reader = new ProtobufReader()
  let measurement = ''
  const tags: [string, string][] = []
  reader.begin(key)
  while (reader.next()) {
    if (reader.field === 1) {
      measurement = readText(reader, 'measurement')
      continue
    }
    const outer = reader.enter()
    let [name, value] = ['', '']
    while (reader.next()) {
      if (reader.field === 1) name = readText(reader, 'key')
      else value = readText(reader, 'value')
    }
    reader.leave(outer)
    tags.push([name, value])
  }
  return { measurement, tags: Object.fromEntries(tags) }
}

function shown(column: Column, row: number, heap: Uint8Array): Shown {
  const bytes = (): Buffer => Buffer.from(heap.buffer, heap.byteOffset + column.i32[row * 2], column.i32[row * 2 + 1])
  const { type } = column
  switch (type) {
    case 'float64': {
      const value = column.f64[row]
      return Number.isFinite(value) ? value : { type, value: String(value) }
    }
    case 'bool':
      return column.u8[row] === 1
    case 'string':
      return bytes().toString('utf8')
    case 'int64':
      return { type, value: String(toNs(column.i32[row * 2], column.i32[row * 2 + 1])) }
    case 'uint64':
      return { type, value: String(BigInt.asUintN(64, toNs(column.i32[row * 2], column.i32[row * 2 + 1]))) }
    case 'decimal':
      return { type, value: decimalOf(column, row) }
    case 'histogram':
      return { type, value: bytes().toString('base64') }
  }
}
