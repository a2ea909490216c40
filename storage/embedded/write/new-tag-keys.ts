/** The tag keys that a write brings: readers have a column for each of a measurement's, whichever of its series has it. */
import type { SvcError } from 'svcdb/lib/errors'
import { tooManyTags } from '../../common/names.ts'
import { NOT_DURABLE } from '../series/provisional-series.ts'
import { FIRST_HANDLE, type SeriesIndex } from '../series/series-index.ts'

export class NewTagKeys {
  private readonly index: SeriesIndex
  private readonly limit: number
  /** By measurement, those that no series has yet; as `SeriesIndex.keyIds` gives them. */
  private readonly fresh = new Map<number, Set<number>>()
  private seen: { measurement: number; added: readonly number[] } | undefined

  /** @param limit keys of one measurement. */
  constructor(index: SeriesIndex, limit: number) {
    this.index = index
    this.limit = limit
  }

  /** Looks at the keys of a row's series. @returns why it cannot be begun; `keep` takes note of them otherwise. */
  refusal(series: number, nameOf: (measurement: number) => string): (() => SvcError) | undefined {
    const { index, limit } = this
    this.seen = undefined
    if (series < FIRST_HANDLE || index.numberOf(series) !== NOT_DURABLE) return undefined
    const measurement = index.measurementOf(series)
    const ids = index.keyIds(series)
    const fresh = this.fresh.get(measurement)
    let added: number[] | undefined
    for (let i = 0; i < ids.length; i++) {
      if (index.keyUses.has(measurement, ids[i], i) || fresh?.has(ids[i]) === true) continue
      added ??= []
      added.push(ids[i])
    }
    if (added === undefined) return undefined
    const total = index.keyUses.size(measurement) + (fresh?.size ?? 0) + added.length
    if (total > limit) {
      const key = index.keyText(added[0])
      return () => tooManyTags(nameOf(measurement), key, total, limit)
    }
    this.seen = { measurement, added }
    return undefined
  }

  /** The row that was looked at last is admitted. */
  keep(): void {
    if (this.seen === undefined) return
    const { measurement, added } = this.seen
    let fresh = this.fresh.get(measurement)
    if (fresh === undefined) this.fresh.set(measurement, (fresh = new Set()))
    for (const id of added) fresh.add(id)
  }
}
