/**
 * Files in which older versions kept a plugin's state beside the storage, taken into the state store once.
 *
 * What is in the file and the digest of its bytes are committed together; then the file is renamed to `<name>.imported`, and its folder synced, before
 * anything is built on it. A crash in between leaves a file with the digest that was noted, which is only renamed. Any other file in its place is
 * refused: it is older than the state, and would bring back what was removed meanwhile, a revoked key say.
 */
import { hash } from 'node:crypto'
import { basename, dirname } from 'node:path'
import { SvcError } from '../lib/errors/index.ts'
import { type FileCalls, readBounded, realFileCalls, syncFolder } from '../lib/files/index.ts'
import type { StateStore, StateTransaction } from './state.ts'

/** Of the plugin's state: `{sha256}` of the file that was imported, null when there was none. */
const IMPORTED = 'imported'

interface Imported {
  sha256: string | null
}

export interface LegacyFile {
  /** Absolute; undefined where nothing is kept on this machine. */
  path: string | undefined
  maxBytes: number
  /** What messages call it, such as "namespaces file". */
  what: string
  /** Decodes the text, then puts what is in it. @throws Error in a few words, before anything was put. */
  read(text: string): (tx: StateTransaction) => void
}

/** @returns whether a file was imported. @throws CONFIG_ERROR naming a file that cannot be used; NodeJS.ErrnoException; what the state store throws. */
export async function importState(state: StateStore, { path, maxBytes, what, read }: LegacyFile, calls: FileCalls = realFileCalls): Promise<boolean> {
  const known = await state.get<Imported>(IMPORTED)
  const bytes = path === undefined ? undefined : await readIfThere(path, maxBytes, what)
  if (path === undefined || bytes === undefined) {
    if (known === undefined) await state.transaction((tx) => tx.put(IMPORTED, { sha256: null } satisfies Imported))
    return false
  }
  const sha256 = hash('sha256', bytes)
  if (known !== undefined && known.sha256 !== sha256)
    throw new SvcError(
      'CONFIG_ERROR',
      `cannot import ${what} "${path}": this database has a state of its own, and the file would bring back what was removed from it; move the file away`,
    )
  if (known === undefined) {
    const put = decoded(path, what, () => read(bytes.toString()))
    await state.transaction((tx) => {
      put(tx)
      tx.put(IMPORTED, { sha256 } satisfies Imported)
    })
  }
  await calls.rename(path, `${path}.imported`)
  await syncFolder(dirname(path), calls)
  return known === undefined
}

async function readIfThere(path: string, maxBytes: number, what: string): Promise<Buffer | undefined> {
  try {
    return await readBounded(path, maxBytes)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw unreadable(path, what, error)
  }
}

function decoded<T>(path: string, what: string, decode: () => T): T {
  try {
    return decode()
  } catch (error) {
    throw unreadable(path, what, error)
  }
}

function unreadable(path: string, what: string, cause: unknown): SvcError {
  const why = `cannot import ${what} "${path}": ${(cause as Error).message}`
  return new SvcError('CONFIG_ERROR', `${why}; put a copy of "${basename(path)}" in its place, or remove it and do without what was in it`, { cause })
}
