/**
 * Inserts in doubt. One without an answer may still be on its way, and be stored behind a later one of the same points, whose values would be lost. ClickHouse stores
 * one insert for each token and partition: so before the next insert into a table, rows of nobody are stored under the token of the one in doubt. Either it came
 * first, and they are left out, or it is left out whenever it comes. It is not sent again itself: by then another node may have stored newer values.
 */
import type { Block } from './block.ts'
import type { WireColumn } from './native/encode.ts'
import { int64s, uint64s } from './native/encode.ts'
import { ID_BYTES } from './series-id.ts'

/** Of no measurement: lives count from the sequence of an event, and sequences from 1. */
const NO_LIFE = 0
/** Rows of measurements' own tables that are somebody's: no series has this id, a part of a SHA-256. */
export const OF_SERIES = 'series != toUInt128(0)'

/** A row of nobody in each partition of a block. In the shared table a measurement is asked for by its life. */
export async function rowsOfNobody(block: Block): Promise<{ columns: WireColumn[]; rows: number }> {
  const days = await block.days()
  const columns: WireColumn[] = [
    { name: 'series', type: 'UInt128', data: new Uint8Array(days.length * ID_BYTES) },
    { name: 'time', type: "DateTime64(9, 'UTC')", data: int64s(days) },
  ]
  if (block.narrow) columns.unshift({ name: 'life', type: 'UInt64', data: uint64s(days.map(() => NO_LIFE)) })
  return { columns, rows: days.length }
}
