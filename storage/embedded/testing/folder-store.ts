/** A folder as an object store, for tests; `before` may throw or wait in front of each operation. */
import { cpSync, existsSync, mkdirSync, rmSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { ObjectStore } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'

type StoreOperation = 'put' | 'create' | 'get' | 'size' | 'remove'

/** @param remote objects are fetched instead of read in place. */
export function folderStore(folder: string, remote = false, before: (operation: StoreOperation, key: string) => void | Promise<void> = () => {}): ObjectStore {
  const path = (key: string) => join(folder, key)
  return {
    name: `folder "${folder}"`,
    ...(remote ? {} : { directory: folder }),
    async put(key, from) {
      await before('put', key)
      mkdirSync(dirname(path(key)), { recursive: true })
      cpSync(from, path(key))
    },
    async create(key, from) {
      await before('create', key)
      if (existsSync(path(key))) return false
      cpSync(from, path(key))
      return true
    },
    async get(key, to) {
      await before('get', key)
      if (!existsSync(path(key))) throw new SvcError('NOT_FOUND', `there is no object "${key}"`)
      cpSync(path(key), to)
    },
    async size(key) {
      await before('size', key)
      return existsSync(path(key)) ? statSync(path(key)).size : undefined
    },
    async remove(key) {
      await before('remove', key)
      rmSync(path(key), { force: true })
    },
  }
}
