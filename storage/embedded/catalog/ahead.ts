/**
 * What a commit would have to store of very many series, stored before it in transactions of a bounded size: each is gathered in one turn of the main
 * loop. Nothing of it means anything, or changes what a start finds, until the commit: new series and symbols lie in the log as well, series that were
 * given back are so in the log already, and the series of a tombstone belong to nobody before its entry is there.
 */

import type { Wal } from '../../common/log/log.ts'
import type { Releases } from '../retention/releases.ts'
import type { Tombstones } from '../retention/tombstones.ts'
import type { SeriesIndex } from '../series/series-index.ts'
import type { Catalog } from './catalog.ts'
import type { Marks, Unstored } from './unstored.ts'

/** Blocks of a transaction. */
const BLOCKS = 16

export interface CatalogAheadDependencies {
  catalog: Catalog
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
    const { catalog, index, unstored, tombstones, releases, wal } = this.dependencies
    // As with a commit: nothing of it may be in the catalog that the log could still lose.
    const ready = (): Promise<void> => wal.settled()
    if (catalog.unstoredBlocks(index) > BLOCKS) {
      await catalog.storeSeries(index, BLOCKS, releases, ready)
      return true
    }
    if (unstored.countOf('series') > BLOCKS) {
      let marks: Marks = new Map()
      const blocks = (): Iterable<number> => {
        marks = unstored.some('series', BLOCKS)
        return marks.get('series')?.keys() ?? []
      }
      await catalog.storeReleased(blocks, index, releases, () => unstored.settle(marks), ready)
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
}
