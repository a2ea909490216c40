/** How much of a catalog's copy a backup looks at in one turn of the main loop. */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { realTimers } from '../../common/timers.ts'
import type { KeyValueStore } from '../catalog/key-value-store.ts'
import { CatalogStore } from '../catalog/store.ts'
import { realEnvironment } from '../environment.ts'
import type { Slices } from '../slices.ts'
import { backupSource } from './source.ts'

const SEGMENTS = 3000
const KEYS = 5000

t.test('the entries of the copy are looked at in slices', async (t) => {
  const dataDir = temporaryFolder(t)
  const directory = join(dataDir, 'copy')
  mkdirSync(directory)
  const store = await CatalogStore.open(directory, true)
  const padded = (id: number) => String(id).padStart(10, '0')
  await store.transaction((tx) => {
    for (let id = 0; id < KEYS; id++) tx.putJson(`state/test/${padded(id)}`, id)
    for (let id = 0; id < SEGMENTS; id++) tx.putJson(`segment/${padded(id)}`, { id, file: `segments/shard_1/${padded(id)}.parquet`, bytes: 1, crc: 1 })
  })
  await store.close()
  let looks = 0
  let most = 0
  const counted = <T>(found: T): T => {
    most = Math.max(most, ++looks)
    return found
  }
  const watched = (db: KeyValueStore): KeyValueStore =>
    new Proxy(db, {
      get(target, name: keyof KeyValueStore) {
        if (name === 'getBinaryFast') return (key: string) => counted(target.getBinaryFast(key))
        if (name === 'getRange')
          return function* (...range: Parameters<KeyValueStore['getRange']>) {
            for (const entry of target.getRange(...range)) yield counted(entry)
          }
        const value: unknown = target[name]
        return typeof value === 'function' ? value.bind(target) : value
      },
    })
  const setImmediate: typeof realTimers.setImmediate = (callback) =>
    realTimers.setImmediate(() => {
      looks = 0
      callback()
    })
  let inSlices = false
  const openStore = async (dir: string, slices?: Slices): Promise<KeyValueStore> => {
    inSlices = slices !== undefined
    return watched(await realEnvironment.openStore(dir, slices))
  }
  const environment = { ...realEnvironment, openStore, timers: { ...realTimers, setImmediate } }
  const source = backupSource({ dataDir, isCorrupt: () => false, environment } as unknown as Parameters<typeof backupSource>[0])
  const files = await source.detach(directory)
  t.equal(files.length, SEGMENTS)
  t.same(files.at(-1), [{ file: `segments/shard_1/${padded(SEGMENTS - 1)}.parquet`, bytes: 1, crc32: '00000001' }])
  t.ok(most > 0 && most < 2048, `${most} in one turn`)
  t.ok(inSlices, 'and its pages')
})
