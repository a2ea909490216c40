/** Packed blocks as rows whose values are unpacked when they are asked for. */
import type { PackedBlock } from './packed-block.ts'
import { blockOf, type Frame, type PageBlock } from './page-block.ts'
import type { RowBlock } from './row-block.ts'
import { type LazyFile, RowGroup } from './row-group.ts'
import type { Scratch } from './scratch.ts'

/** @param scratch for its times. */
export function packedGroup(packed: PackedBlock, file: LazyFile, of: ConstructorParameters<typeof RowGroup>[2], scratch: Scratch | undefined): RowBlock {
  const frame = frameOfPacked(packed, scratch)
  const values = (room: Scratch): PageBlock =>
    blockOf(
      frame,
      packed.unpackValuesTo((length) => room.ints(length)),
      packed.divisor,
    )
  return new RowGroup(frame, file, of, (_field, _file, room) => values(room))
}

/** Whose and when its rows are. */
export function frameOfPacked(packed: PackedBlock, scratch: Scratch | undefined): Frame {
  const { series, starts, minTime, maxTime, sparse } = packed
  const rows = starts[series.length]
  const times = scratch?.doubles(rows) ?? new Float64Array(rows)
  packed.unpackTimes(times)
  return { series, starts, times, minTime, maxTime, ...(sparse === undefined ? {} : { sparse }) }
}
