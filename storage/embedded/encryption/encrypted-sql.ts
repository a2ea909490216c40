/**
 * Encrypted columns within statements, as texts: one function a type that turns a row number of a segment's file into the row's value, and one that says whether
 * there is one (encrypted-functions.ts). Their names are not on the SQL gate's list, so no query reaches them by itself.
 */
import type { FieldType } from 'svcdb'
import type { SegmentColumn, SegmentMeta } from '../threads/segment-entry.ts'
import { type ColumnLocation, columnLocation } from './columns.ts'

/** DuckDB's number of a row within its Parquet file; no column of such a file may have the name. */
export const ROW_NUMBER = 'file_row_number'
export const PRESENT = '__svc_present'

export const functionName = (type: FieldType, scale: number): string => `__svc_decrypt_${type}${type === 'decimal' ? `_${scale}` : ''}`
const quoted = (location: ColumnLocation): string => `'${JSON.stringify(location).replaceAll("'", "''")}'`

/** The value of an encrypted column in the row that DuckDB is at. */
export function decryptedColumn(segment: SegmentMeta, column: SegmentColumn): string {
  return `${functionName(column.type, column.scale)}(${quoted(columnLocation(segment, column))}, ${ROW_NUMBER})`
}

/** Whether the row has a value in the encrypted column. */
export function hasDecrypted(location: ColumnLocation): string {
  return `${PRESENT}(${quoted(location)}, ${ROW_NUMBER})`
}
