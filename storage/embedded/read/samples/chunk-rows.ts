/** Rows of a memtable chunk whose values are gathered where they are asked for. */
import type { ChunkView, ColumnView } from '../../memtable/chunk-view.ts'
import { RUN } from '../../memtable/runs.ts'
import type { FieldDef } from '../../threads/definitions.ts'
import type { MemtablePart } from '../../threads/state.ts'
import type { ChunkFrame } from './chunk-frame.ts'
import { areNumbers, built, gatherNumbers } from './chunk-values.ts'
import type { Frame } from './page-block.ts'
import type { RowBlock, RowValues } from './row-block.ts'
import type { SampleBlock } from './sample-block.ts'
import type { Scratch } from './scratch.ts'

/** What the cache has of a chunk's fields: of all of its rows, where they are the rows here. */
interface KeptFields {
  /** Those that have a value. */
  get(field: FieldDef): SampleBlock | undefined
  /** Makes and keeps the values of all rows, where that is worth it. */
  whole(field: FieldDef): SampleBlock | undefined
}

/** Values of more than this part of the rows are worth keeping. */
const MOST_ROWS = 0.5

export class ChunkRows implements RowBlock {
  readonly frame: Frame
  private readonly part: MemtablePart
  private readonly chunk: ChunkView
  private readonly fields: readonly FieldDef[]
  private readonly order: Int32Array
  private readonly kept: KeptFields

  constructor(
    part: MemtablePart,
    chunk: ChunkView,
    fields: readonly FieldDef[],
    { order, series, starts, times, rests, duplicates, minTime, maxTime }: ChunkFrame,
    kept: KeptFields,
  ) {
    this.part = part
    this.chunk = chunk
    this.fields = fields
    this.order = order
    this.kept = kept
    this.frame = { series, starts, times, minTime, maxTime }
    if (rests !== undefined) this.frame.rests = rests
    if (duplicates) this.frame.duplicates = true
  }

  dense(field: number): boolean {
    const view = this.view(field)
    return view !== undefined && !this.chunk.hasNulls(view)
  }

  bounds(): undefined {
    return undefined
  }

  values(field: number, runs: Int32Array, scratch: Scratch): RowValues | undefined {
    const view = this.view(field)
    if (view === undefined) return undefined
    const { chunk, part, order } = this
    const def = this.fields[field]
    const kept = this.kept.get(def)
    if (kept !== undefined && kept.sparse !== true && kept.times.length === order.length) return new BlockRows(kept).values()
    if (!chunk.hasNulls(view) && areNumbers(def, chunk, view)) {
      const whole = rowsOf(runs) > order.length * MOST_ROWS ? this.kept.whole(def) : undefined
      if (whole !== undefined) return new BlockRows(whole).values()
      const out = scratch.doubles(order.length).subarray(0, order.length)
      for (let r = 0; r < runs.length; r += RUN) gatherNumbers(view, def, order, runs[r + 1], runs[r + 2], out)
      return { values: out }
    }
    const block = built(part, chunk, view, order, def).build(false)
    return block.sparse === true ? undefined : { values: block.values }
  }

  close(): void {}

  private view(field: number): ColumnView | undefined {
    return this.chunk.columns.get(this.fields[field].id)
  }
}

/** Rows that have a value of the one field. */
export class BlockRows implements RowBlock {
  readonly frame: Frame
  private readonly block: SampleBlock

  constructor(block: SampleBlock) {
    this.block = block
    this.frame = block
  }

  dense(): boolean {
    return true
  }

  bounds(): undefined {
    return undefined
  }

  values(): RowValues {
    const { values, divisor } = this.block
    return divisor === undefined ? { values } : { values, divisor }
  }

  close(): void {}
}

function rowsOf(runs: Int32Array): number {
  let rows = 0
  for (let r = 0; r < runs.length; r += RUN) rows += runs[r + 2] - runs[r + 1]
  return rows
}
