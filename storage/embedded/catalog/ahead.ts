/**
 * What a commit would have to store of very many series, stored before it in transactions of a bounded size: each is gathered in one turn of the main
 * loop. Nothing of it means anything, or changes what a start finds, until the commit: new series and symbols lie in the log as well, series that were
 * given back are so in the log already, and the series of a tombstone belong to nobody before its entry is there.
 */

import type { Lifetime } from '../retention/lifetime.ts'
import type { SeriesIndex } from '../series/series-index.ts'
import type { WritePath } from '../write/write-path.ts'
import type { Catalog } from './catalog.ts'
import type { Marks } from './unstored.ts'

/** Blocks of a transaction. */
const BLOCKS = 16

export interface CatalogAheadParts {
  catalog: Catalog
  index: SeriesIndex
  lifetime: Lifetime
  writes: WritePath
}

export class CatalogAhead {
  private running: Promise<void> | undefined
  private readonly parts: CatalogAheadParts

  constructor(parts: CatalogAheadParts) {
    this.parts = parts
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
    const { catalog, index, lifetime, writes } = this.parts
    const { tombstones, releases } = lifetime
    const { unstored } = writes
    // As with a commit: nothing of it may be in the catalog that the log could still lose.
    const ready = (): Promise<void> => writes.wal.settled()
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
