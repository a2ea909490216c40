/** The state store for commands: read from the catalog's file, beside a server that may be writing it; or opened as a server does, where none runs. */
import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { OpenState, OwnState } from 'svcdb'
import { type Environment, lockTexts, realEnvironment } from '../environment.ts'
import { paths } from '../paths.ts'
import { readLmdb } from './key-value-store.ts'
import { LmdbState, LmdbStateReader } from './state-store.ts'
import { CatalogStore, FORMAT_VERSION } from './store.ts'
import { decodeValue } from './value.ts'

/** @returns undefined when there is no catalog. @throws Error in one line. */
export async function openState(config: Record<string, unknown>, owner: string): Promise<OpenState | undefined> {
  const directory = paths(resolve(String(config.data_dir))).catalog
  const db = readLmdb(directory)
  if (db === undefined) return undefined
  try {
    const { format } = JSON.parse(new TextDecoder().decode(db.get('meta/format'))) as { format: unknown }
    if (format !== FORMAT_VERSION)
      throw new Error(
        `cannot read the state of "${directory}": its format is version ${format}, this svc reads version ${FORMAT_VERSION}; start its server first`,
      )
    const catalog: Pick<CatalogStore, 'get' | 'range'> = {
      get: (key) => {
        const stored = db.get(key)
        return stored === undefined ? undefined : decodeValue(key, stored)
      },
      *range(range) {
        for (const { key, value } of db.getRange(range)) yield { key, bytes: decodeValue(key, value) }
      },
    }
    return { state: new LmdbStateReader(catalog, owner), close: () => db.close() }
  } catch (error) {
    await db.close()
    throw error
  }
}

/** Under the lock of the data directory, which a server would have. @returns undefined when there is no catalog. @throws Error in one line. */
export async function ownState(config: Record<string, unknown>, owner: string, environment: Environment = realEnvironment): Promise<OwnState | undefined> {
  const dirs = paths(resolve(String(config.data_dir)))
  if (!existsSync(join(dirs.catalog, 'data.mdb'))) return undefined
  const lock = environment.lock(dirs.lock, lockTexts(dirs.lock))
  lock.acquire()
  try {
    const store = await CatalogStore.open(dirs.catalog, false, environment)
    return {
      state: new LmdbState(store, owner),
      async close() {
        try {
          await store.close()
        } finally {
          lock.release()
        }
      },
    }
  } catch (error) {
    lock.release()
    throw error
  }
}
