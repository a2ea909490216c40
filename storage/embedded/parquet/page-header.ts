/** The header before each page of a chunk. */
import { PageFault } from './page-fault.ts'
import { Thrift, ThriftCursor } from './thrift-cursor.ts'

export const PageType = { DATA: 0, INDEX: 1, DICTIONARY: 2, DATA_V2: 3 } as const
export const Encoding = {
  PLAIN: 0,
  PLAIN_DICTIONARY: 2,
  RLE: 3,
  DELTA_BINARY_PACKED: 5,
  DELTA_LENGTH_BYTE_ARRAY: 6,
  RLE_DICTIONARY: 8,
  BYTE_STREAM_SPLIT: 9,
} as const

/** Ids of parquet.thrift. */
const Header = { TYPE: 1, UNCOMPRESSED: 2, COMPRESSED: 3, DATA: 5, DICTIONARY: 7, DATA_V2: 8 } as const
const V1 = { VALUES: 1, ENCODING: 2 } as const
const V2 = { VALUES: 1, NULLS: 2, ENCODING: 4, LEVEL_BYTES: 5, REPETITION_BYTES: 6, IS_COMPRESSED: 7 } as const

/** DuckDB ends pages at 100 MB. */
const MAX_PAGE_BYTES = 1 << 27

export interface PageHeader {
  /** Of `PageType`. */
  type: number
  /** Bytes of the page, with its levels, before and after compression. */
  size: number
  compressed: number
  /** Values, nulls included; of a dictionary its entries. */
  values: number
  encoding: number
  /** Version 2: bytes of the definition levels, which come first and are not compressed; -1 in others. */
  levelBytes: number
  isCompressed: boolean
  /** Where the page begins. */
  at: number
}

/** @throws PageFault */
export function readPageHeader(bytes: Uint8Array, at: number, end: number): PageHeader {
  const cursor = new ThriftCursor(bytes, at, end)
  const out: PageHeader = { type: -1, size: -1, compressed: -1, values: -1, encoding: -1, levelBytes: -1, isCompressed: true, at: 0 }
  cursor.enter()
  while (cursor.next()) {
    const { id, type } = cursor
    if (type === Thrift.I32 && id === Header.TYPE) out.type = cursor.integer()
    else if (type === Thrift.I32 && id === Header.UNCOMPRESSED) out.size = cursor.integer()
    else if (type === Thrift.I32 && id === Header.COMPRESSED) out.compressed = cursor.integer()
    else if (type === Thrift.STRUCT && (id === Header.DATA || id === Header.DICTIONARY)) readValues(cursor, out)
    else if (type === Thrift.STRUCT && id === Header.DATA_V2) readV2(cursor, out)
    else cursor.skip(type)
  }
  out.at = cursor.at
  if (out.size > MAX_PAGE_BYTES) throw new PageFault('a page is too large')
  if (out.compressed < 0 || out.size < 0 || out.at + out.compressed > end) throw new PageFault('a page reaches beyond its chunk')
  if (out.type !== PageType.INDEX && (out.values < 0 || out.encoding < 0)) throw new PageFault('a page does not say what it holds')
  return out
}

function readValues(cursor: ThriftCursor, out: PageHeader): void {
  cursor.enter()
  while (cursor.next()) {
    if (cursor.id === V1.VALUES) out.values = cursor.integer()
    else if (cursor.id === V1.ENCODING) out.encoding = cursor.integer()
    else cursor.skip(cursor.type)
  }
}

function readV2(cursor: ThriftCursor, out: PageHeader): void {
  let repetition = 0
  cursor.enter()
  while (cursor.next()) {
    if (cursor.id === V2.VALUES) out.values = cursor.integer()
    else if (cursor.id === V2.ENCODING) out.encoding = cursor.integer()
    else if (cursor.id === V2.LEVEL_BYTES) out.levelBytes = cursor.integer()
    else if (cursor.id === V2.REPETITION_BYTES) repetition = cursor.integer()
    else if (cursor.id === V2.IS_COMPRESSED) out.isCompressed = cursor.type === Thrift.TRUE
    else cursor.skip(cursor.type)
  }
  if (repetition !== 0 || out.levelBytes < 0) throw new PageFault('a page has levels of repetition')
}
