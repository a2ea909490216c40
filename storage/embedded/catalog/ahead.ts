/**
 * What a commit would have to store of very many series or measurements, stored before it in transactions of a bounded size: each is gathered in one turn
 * of the main loop. Nothing of it means anything, or changes what a start finds, until the commit: new series, symbols and definitions lie in the log as
 * well, series that were given back are so in the log already, and the series of a tombstone belong to nobody before its entry is there.
 */

import type { Wal } from '../../common/log/log.ts'
import type { Drops } from '../retention/drops.ts'
import type { Releases } from '../retention/releases.ts'
import type { Tombstones } from '../retention/tombstones.ts'
import type { SeriesIndex } from '../series/series-index.ts'
import type { Catalog } from './catalog.ts'
import { entriesOf } from './change.ts'
import type { Schema } from './schema.ts'
import type { Kind, Marks, Unstored } from './unstored.ts'

/** Blocks of a transaction. */
const BLOCKS = 16
/** Weight of the measurements and tables of a transaction: each counts as one, and their fields. */
const DEFINITIONS = 512
/** Fields that take as long to store as an entry without any. */
const FIELDS = 64

interface CatalogAheadDependencies {
  catalog: Catalog
  schema: Schema
  drops: Drops
  index: SeriesIndex
  unstored: Unstored
  tombstones: Tombstones
  releases: Releases
  wal: Wal
}

export class CatalogAhead {
  private running: Promise<void> | undefined
  private readonly dependencies: CatalogAheadDependencies

  constructor(dependencies: CatalogAheadDependencies) {
    this.dependencies = dependencies
  }

  /** Resolves when a commit that begins now has no more to store than one of these transactions. @throws as a commit. */
  store(): Promise<void> {
    this.running ??= Promise.resolve()
      .then(() => this.all())
      .finally(() => {
        this.running = undefined
      })
    return this.running
  }

  private async all(): Promise<void> {
    while (await this.step()) {}
  }

  /** @returns whether there was something. */
  private async step(): Promise<boolean> {
    const { catalog, schema, drops, index, unstored, tombstones, releases, wal } = this.dependencies
    // As with a commit: nothing of it may be in the catalog that the log could still lose.
    const ready = (): Promise<void> => wal.settled()
    if (catalog.unstoredBlocks(index) > BLOCKS) {
      await catalog.storeSeries(index, BLOCKS, releases, ready)
      return true
    }
    if (unstored.countOf('series') > BLOCKS) {
      let marks: Marks = new Map()
      const blocks = (): Iterable<number> => {
        const some = unstored.some('series', BLOCKS)
        marks = new Map([['series', some]])
        return some.keys()
      }
      await catalog.storeReleased(blocks, index, releases, () => unstored.settle(marks), ready)
      return true
    }
    if (this.definitions().size > 0) {
      let marks: Marks = new Map()
      const entries = () => {
        marks = this.definitions()
        return entriesOf(marks, { schema, tombstones, drops }, 0).entries
      }
      await catalog.storeEntries(entries, () => unstored.settle(marks), ready)
      return true
    }
    for (const id of unstored.ids('tombstone')) {
      const tombstone = tombstones.byId.get(id)
      if (tombstone === undefined || !catalog.lacksMasked(tombstone)) continue
      await catalog.storeMasked(() => tombstones.byId.get(id), BLOCKS, ready)
      return true
    }
    return false
  }

  /**
   * Marks of the definitions that the next transaction stores: none unless there are many. Of a measurement that is being dropped or restored they go with
   * what else says so, in one commit.
   */
  private definitions(): Marks {
    const { schema, unstored } = this.dependencies
    if (!this.hasMany()) return new Map()
    const stands = (id: number): boolean => schema.byId[id] !== undefined && !unstored.has('drop', id)
    const tables = unstored.upTo('table', DEFINITIONS, (id) => {
      const table = schema.tables[id]
      return table !== undefined && (table.measurement < 0 || stands(table.measurement)) ? weightOf(table.fields) : undefined
    })
    let room = DEFINITIONS
    for (const id of tables.keys()) room -= weightOf(schema.tables[id]?.fields)
    const measurements = unstored.upTo('measurement', room, (id) => (stands(id) ? weightOf(schema.byId[id]?.list) : undefined))
    const kinds: [Kind, ReadonlyMap<number, number>][] = []
    if (tables.size > 0) kinds.push(['table', tables])
    if (measurements.size > 0) kinds.push(['measurement', measurements])
    return new Map(kinds)
  }

  /** More definitions are marked than one transaction is to have. */
  private hasMany(): boolean {
    const { schema, unstored } = this.dependencies
    let weight = 0
    for (const id of unstored.ids('table')) if ((weight += weightOf(schema.tables[id]?.fields)) > DEFINITIONS) return true
    for (const id of unstored.ids('measurement')) if ((weight += weightOf(schema.any(id)?.list)) > DEFINITIONS) return true
    return false
  }
}

const weightOf = (fields: readonly unknown[] = []): number => 1 + fields.length / FIELDS
