/** The first time of a table's rows from a sequence on: asked many times a pass for tables that many measurements share. */
import { earlier, INT64_MAX } from '../../common/time.ts'
import type { Memtable } from '../memtable/memtable.ts'
import { Summary } from '../threads/memtable-layout.ts'
import type { SegmentMeta } from '../threads/segment-entry.ts'

/** Ascending by sequence, each with the first time of those from there on. */
interface Steps {
  sequences: number[]
  firsts: bigint[]
}

/** A table's list of segments is replaced, never changed in place. */
const known = new WeakMap<readonly SegmentMeta[], Steps>()

/**
 * @param segments of the table, ascending by sequence.
 * @param memtables ascending by sequence, those of all segments below theirs.
 */
export function firstTimeFrom(segments: readonly SegmentMeta[], memtables: readonly Memtable[], table: number, sequence: number): bigint {
  let first = firstOf(segments, sequence)
  for (const memtable of memtables) {
    const part = memtable.tables.get(table)
    if (memtable.sequence >= sequence && part !== undefined && part.rows > 0) first = earlier(first, part.summary[Summary.MIN_TIME])
  }
  return first
}

function firstOf(segments: readonly SegmentMeta[], sequence: number): bigint {
  if (segments.length === 0 || segments[segments.length - 1].sequence < sequence) return INT64_MAX
  let steps = known.get(segments)
  if (steps === undefined) known.set(segments, (steps = stepsOf(segments)))
  let low = 0
  let high = steps.sequences.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (steps.sequences[middle] < sequence) low = middle + 1
    else high = middle
  }
  return steps.firsts[low] ?? INT64_MAX
}

function stepsOf(segments: readonly SegmentMeta[]): Steps {
  const firsts = new Array<bigint>(segments.length)
  let first = INT64_MAX
  for (let i = segments.length - 1; i >= 0; i--) firsts[i] = first = earlier(first, BigInt(segments[i].minTime))
  return { sequences: segments.map(({ sequence }) => sequence), firsts }
}
