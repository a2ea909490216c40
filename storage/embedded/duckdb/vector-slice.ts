/** Rows of a vector that was read, as a vector of its own. */
import type { SqlVector } from 'svcdb'

export function vectorSlice({ values, validity, dictionary, bytes }: SqlVector, from: number, to: number): SqlVector {
  const rest = { validity: validity?.subarray(from, to), dictionary }
  if (bytes === undefined) return { values: (values as unknown[]).slice(from, to), ...rest }
  const ends = values as Int32Array
  return { values: ends.slice(from, to + 1).map((end) => end - ends[from]), bytes: bytes.subarray(ends[from], ends[to]), ...rest }
}
