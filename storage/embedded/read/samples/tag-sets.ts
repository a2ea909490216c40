/** The tags of selected series, read from the shared series index. */
import type { TagColumn, TagSets } from 'svcdb/lib/columns'
import type { SeriesView } from '../../series/series-view.ts'
import { NO_CODE } from '../../series/tag-index.ts'

/** Fewer than one in so many values. */
const FEW = 8

export class SelectedTags implements TagSets {
  readonly length: number
  private readonly view: SeriesView
  private readonly measurement: number
  private readonly series: Int32Array
  /** Positions in the measurement's list; all of it when absent. */
  private readonly positions: Int32Array | undefined
  /** While the list has lost no more series than this, positions in it hold. */
  private readonly losses: number
  private readonly names: readonly string[]

  /** @param like tags that these are some of. */
  constructor(view: SeriesView, measurement: number, series: Int32Array, positions: Int32Array | undefined, like?: SelectedTags) {
    this.view = view
    this.measurement = measurement
    this.series = series
    this.positions = positions
    this.length = series.length
    this.losses = like?.losses ?? view.lossesOf(measurement)
    this.names = like?.names ?? view.tagKeys(measurement)
  }

  /** The tags of some of these series, by their positions here. */
  among(some: Int32Array): SelectedTags {
    const { positions } = this
    return new SelectedTags(
      this.view,
      this.measurement,
      some.map((position) => this.series[position]),
      positions === undefined ? some : some.map((position) => positions[position]),
      this,
    )
  }

  at(i: number): readonly string[] {
    return this.view.pairs(this.series[i])
  }

  keys(): readonly string[] {
    return this.names
  }

  column(key: string): TagColumn {
    const { view, measurement, positions } = this
    if (view.lossesOf(measurement) !== this.losses) return this.ownColumn(view.symbolOf(key))
    const index = view.index(measurement, view.keySymbol(measurement, key))
    if (index === undefined) return { codes: new Int32Array(this.length).fill(NO_CODE), texts: [] }
    const all = index.codesOfList
    // The texts of all values are only worth making, and keeping, for many of the series.
    if (positions !== undefined && this.length * FEW < index.size) return this.ownColumn(view.symbolOf(key))
    return { codes: positions === undefined ? all.subarray(0, this.length) : positions.map((position) => all[position]), texts: index.allTexts() }
  }

  /** Series by series: the tags of a series stay readable once it is given back. */
  private ownColumn(key: number): TagColumn {
    const texts: string[] = []
    const codeOf = new Map<number, number>()
    const codes = this.series.map((series) => {
      const symbol = this.view.tagSymbol(series, key)
      if (symbol < 0) return NO_CODE
      let code = codeOf.get(symbol)
      if (code === undefined) {
        codeOf.set(symbol, (code = texts.length))
        texts.push(this.view.textOf(symbol))
      }
      return code
    })
    return { codes, texts }
  }
}
