/** The series of tombstones that have many, block by block. */
import { rmSync } from 'node:fs'
import t from 'tap'
import { storeTombstone } from '../retention/stored.ts'
import { tempDir } from '../testing/harness.ts'
import type { Tombstone } from '../threads/removals.ts'
import { blockKey, Catalog } from './catalog.ts'

const tombstone = (series: number): Tombstone => ({
  id: 7,
  measurement: 1,
  sequence: 1,
  series: Int32Array.from({ length: series }, (_, i) => series + i),
  start: 0n,
  end: 100n,
})

t.test('blocks of a tombstone that was never stored whole do not count for the next one of its number', async (t) => {
  const dir = tempDir()
  t.teardown(() => rmSync(dir, { recursive: true }))
  const at = async (work: (catalog: Catalog) => Promise<void>): Promise<void> => {
    const catalog = await Catalog.open(dir, true)
    await work(catalog).finally(() => catalog.close())
  }
  const ready = async (): Promise<void> => {}
  const storeMasks = (catalog: Catalog, series: number): Promise<void> => catalog.storeMasked(() => tombstone(series), 100, ready)
  // As a backup has it whose copy of the catalog was made in between.
  await at((catalog) => storeMasks(catalog, 40_000))
  await at(async (catalog) => {
    t.same(catalog.tombstones(), [])
    await storeMasks(catalog, 20_000)
    await catalog.storeEntries(
      () => [[blockKey('tombstone', 7), storeTombstone(tombstone(20_000))]],
      () => {},
      ready,
    )
  })
  await at(async (catalog) => {
    const [found, ...more] = catalog.tombstones()
    t.equal(more.length, 0)
    t.same(found.series, tombstone(20_000).series)
  })
})
