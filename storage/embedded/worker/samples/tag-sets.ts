/** The tags of selected series, read from the shared series index. */
import type { TagColumn, TagSets } from '../../../../kernel/samples.ts'
import type { SeriesView } from '../series.ts'
import { NO_CODE } from '../tag-index.ts'

export class SelectedTags implements TagSets {
  readonly length: number
  private readonly view: SeriesView
  private readonly measurement: number
  private readonly series: Int32Array
  /** Places in the measurement's list; all of it when absent. */
  private readonly positions: Int32Array | undefined

  constructor(view: SeriesView, measurement: number, series: Int32Array, positions: Int32Array | undefined) {
    this.view = view
    this.measurement = measurement
    this.series = series
    this.positions = positions
    this.length = series.length
  }

  /** The tags of some of these series, by their places here. */
  among(places: Int32Array): SelectedTags {
    const { positions } = this
    return new SelectedTags(
      this.view,
      this.measurement,
      places.map((place) => this.series[place]),
      positions === undefined ? places : places.map((place) => positions[place]),
    )
  }

  at(i: number): readonly string[] {
    return this.view.pairs(this.series[i])
  }

  keys(): readonly string[] {
    return this.view.tagKeys(this.measurement)
  }

  column(key: string): TagColumn {
    const index = this.view.index(this.measurement, this.view.keySymbol(this.measurement, key))
    if (index === undefined) return { codes: new Int32Array(this.length).fill(NO_CODE), texts: [] }
    const all = index.codesOfList
    const { positions } = this
    return { codes: positions === undefined ? all.subarray(0, this.length) : positions.map((position) => all[position]), texts: index.allTexts() }
  }
}
