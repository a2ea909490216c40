/** A row group of a segment whose values are read when they are asked for, and what its file says of them before. */
import type { Footer } from '../../parquet/footer.ts'
import type { ParquetFile } from '../../parquet/parquet-file.ts'
import type { Frame, PageBlock } from './page-block.ts'
import type { RowBlock, RowValues, ValueBounds } from './row-block.ts'
import type { Scratch } from './scratch.ts'
import type { StoredColumn } from './stored-column.ts'

/** A file that is opened when it is first read. */
export class LazyFile {
  private readonly open: () => ParquetFile
  private file: ParquetFile | undefined

  constructor(open: () => ParquetFile) {
    this.open = open
  }

  get opened(): ParquetFile {
    this.file ??= this.open()
    return this.file
  }

  close(): void {
    this.file?.close()
    this.file = undefined
  }
}

export class RowGroup implements RowBlock {
  readonly frame: Frame
  private readonly file: LazyFile
  private readonly load: (field: number, file: LazyFile, scratch: Scratch) => PageBlock
  private readonly known: readonly (ValueBounds | undefined)[]
  private readonly whole: readonly boolean[]

  /**
   * @param frame the part of the measurement that is asked for.
   * @param load values of a field, by its number in the request.
   */
  constructor(
    frame: Frame,
    file: LazyFile,
    { footer, group, columns }: { footer: Footer; group: number; columns: readonly StoredColumn[] },
    load: (field: number, file: LazyFile, scratch: Scratch) => PageBlock,
  ) {
    this.frame = frame
    this.file = file
    this.load = load
    this.known = columns.map((column) => boundsOf(footer, group, column))
    this.whole = columns.map((column) => isDense(footer, group, column))
  }

  dense(field: number): boolean {
    return this.whole[field]
  }

  bounds(field: number): ValueBounds | undefined {
    return this.known[field]
  }

  values(field: number, _runs: Int32Array, scratch: Scratch): RowValues | undefined {
    const block = this.load(field, this.file, scratch)
    // Its rows are others than those of the frame.
    if (block.sparse === true && block.times !== this.frame.times) return undefined
    const { values, divisor } = block
    return divisor === undefined ? { values } : { values, divisor }
  }

  close(): void {
    this.file.close()
  }
}

/** Whether all rows have a value in the column itself. */
export function isDense(footer: Footer, group: number, { name }: Pick<StoredColumn, 'name' | 'bits'>): boolean {
  const column = footer.column(name)
  return column >= 0 && footer.nulls[group * footer.columns.length + column] === 0
}

function boundsOf(footer: Footer, group: number, { name, kind, divisor, bits, nonFinite }: StoredColumn): ValueBounds | undefined {
  if (nonFinite && bits === undefined) return undefined
  // What is not finite lies in the other column, where this one has none.
  if (bits !== undefined && footer.nulls[group * footer.columns.length + footer.column(name)] !== 0) return undefined
  const column = footer.column(name)
  if (kind === 'scaled' || kind === 'double') {
    const bounds = footer.numbers(group, column)
    return bounds === undefined ? undefined : { min: bounds.min / divisor, max: bounds.max / divisor }
  }
  const bounds = kind === 'bool' ? undefined : footer.integers(group, column)
  // Bounds of unsigned integers come as signed ones.
  if (bounds === undefined || (kind === 'uint64' && (bounds.min < 0n || bounds.max < bounds.min))) return undefined
  return { min: Number(bounds.min) / divisor, max: Number(bounds.max) / divisor }
}
