/** Packed blocks as rows whose times and values are unpacked when they are asked for. */
import type { PackedBlock } from './packed-block.ts'
import type { Frame } from './page-block.ts'
import type { RowBlock, RowValues } from './row-block.ts'
import { type LazyFile, RowGroup } from './row-group.ts'
import type { Scratch } from './scratch.ts'

/** Most who count rows need of times the ends of runs only, which the block tells by itself. */
class PackedFrame implements Frame {
  readonly series: Int32Array
  readonly starts: Int32Array
  readonly minTime: number
  readonly maxTime: number
  readonly packed: PackedBlock
  readonly sparse?: true
  private readonly scratch: Scratch | undefined
  private unpacked: Float64Array | undefined

  constructor(packed: PackedBlock, scratch: Scratch | undefined) {
    this.series = packed.series
    this.starts = packed.starts
    this.minTime = packed.minTime
    this.maxTime = packed.maxTime
    this.packed = packed
    if (packed.sparse !== undefined) this.sparse = packed.sparse
    this.scratch = scratch
  }

  get times(): Float64Array {
    this.unpacked ??= unpackedTimes(this.packed, this.scratch)
    return this.unpacked
  }
}

class PackedGroup extends RowGroup {
  private readonly packed: PackedBlock

  constructor(packed: PackedBlock, file: LazyFile, of: ConstructorParameters<typeof RowGroup>[2], scratch: Scratch | undefined) {
    super(new PackedFrame(packed, scratch), file, of, () => {
      throw new Error('the values of a packed block are its own')
    })
    this.packed = packed
  }

  override values(_field: number, runs: Int32Array, scratch: Scratch): RowValues {
    // A view of its own: what is remembered of the values must not be taken for that of others in the same memory.
    const { divisor } = this.packed
    const values = this.packed.unpackValuesTo(runs, (length) => scratch.ints(length).subarray(0, length))
    return divisor === undefined ? { values } : { values, divisor }
  }
}

/** @param scratch for its times: they are void once it is released. */
export function packedGroup(packed: PackedBlock, file: LazyFile, of: ConstructorParameters<typeof RowGroup>[2], scratch: Scratch | undefined): RowBlock {
  return new PackedGroup(packed, file, of, scratch)
}

/** Whose and when its rows are. */
export function frameOfPacked(packed: PackedBlock, scratch: Scratch | undefined): Frame {
  const { series, starts, minTime, maxTime, sparse } = packed
  return { series, starts, times: unpackedTimes(packed, scratch), minTime, maxTime, ...(sparse === undefined ? {} : { sparse }) }
}

function unpackedTimes(packed: PackedBlock, scratch: Scratch | undefined): Float64Array {
  const rows = packed.starts[packed.series.length]
  const times = scratch?.doubles(rows) ?? new Float64Array(rows)
  packed.unpackTimes(times)
  return times
}
