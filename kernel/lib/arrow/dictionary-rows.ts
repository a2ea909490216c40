/** Rows that are numbers in a dictionary. Bitmaps have a bit a row, 1 = it has a value; an empty one means that all have. */
import type { Data } from 'apache-arrow/data'
import type { Vector } from 'apache-arrow/vector'

/** The first row whose value is not in the dictionary, -1 = none. */
export function rowOutside(data: Data, bitmap: Uint8Array): number {
  const indices = indicesOf(data)
  const entries = (data.dictionary as Vector).length
  for (let i = 0; i < data.length; i++) {
    const index = indices[i]
    if ((index < 0 || index >= entries) && isPresent(bitmap, i)) return i
  }
  return -1
}

/** Rows that have an entry which is a value itself: the dictionary may hold null. */
export function rowsWithValue(data: Data, bitmap: Uint8Array): { nullCount: number; nullBitmap: Uint8Array } {
  const indices = indicesOf(data)
  const entries = data.dictionary as Vector
  const nullBitmap = new Uint8Array(Math.ceil(data.length / 8))
  let nullCount = 0
  for (let i = 0; i < data.length; i++) {
    if (isPresent(bitmap, i) && entries.isValid(Number(indices[i]))) nullBitmap[i >> 3] |= 1 << (i & 7)
    else nullCount++
  }
  return { nullCount, nullBitmap }
}

export function indicesOf(data: Data): ArrayLike<number | bigint> {
  return data.values as unknown as ArrayLike<number | bigint>
}

function isPresent(bitmap: Uint8Array, row: number): boolean {
  return bitmap.length === 0 || ((bitmap[row >> 3] >> (row & 7)) & 1) === 1
}
