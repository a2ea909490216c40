/**
 * What a commit would have to store of very many series, stored before it in transactions of a bounded size: each is gathered in one turn of the main
 * loop. Nothing of it means anything, or changes what a start finds, until the commit: new series and symbols lie in the log as well, series that were
 * given back are so in the log already, and the series of a tombstone belong to nobody before its entry is there.
 */
import type { Catalog } from './catalog.ts'
import type { Lifetime } from './lifetime/lifetime.ts'
import type { SeriesIndex } from './series-index.ts'

/** Blocks of a transaction. */
const BLOCKS = 16

export class CatalogAhead {
  private running: Promise<void> | undefined
  private readonly catalog: Catalog
  private readonly index: SeriesIndex
  private readonly lifetime: Lifetime

  constructor(catalog: Catalog, index: SeriesIndex, lifetime: Lifetime) {
    this.catalog = catalog
    this.index = index
    this.lifetime = lifetime
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
    const { catalog, index, lifetime } = this
    const { unstored, tombstones, releases } = lifetime
    if (catalog.unstoredBlocks(index) > BLOCKS) {
      await catalog.storeSeries(index, BLOCKS, releases)
      return true
    }
    if (unstored.released.size > BLOCKS) {
      const blocks = [...unstored.released].slice(0, BLOCKS)
      const stamps = await catalog.storeReleased(
        index,
        blocks.map(([block]) => block),
        releases,
        (block) => unstored.released.get(block),
      )
      for (const [block, stamp] of stamps) unstored.stored(block, stamp)
      return true
    }
    for (const id of tombstones.changed) {
      const tombstone = tombstones.byId.get(id)
      if (tombstone !== undefined && (await catalog.storeMasked(tombstone, BLOCKS))) return true
    }
    return false
  }
}
