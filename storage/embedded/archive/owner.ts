/**
 * Whose objects lie in a store. A database marks the store as its own before it writes or removes anything there; another one may read, since a
 * database restored from a backup names objects of the one it came from, and is refused everything else: each would remove objects that the other
 * has committed. Layout: docs/formats/archive.md.
 */
import type { ObjectStore } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import type { FileSystem } from '../../common/log/file-system.ts'

export const OWNER_KEY = 'svc-owner.json'
/** Of the mark; what others make may say more than the id. */
const MAX_MARK_BYTES = 65_536
/** Objects of which one must be there where the mark is not. */
const LOOKED_FOR = 8

/** Which database this is. */
export interface Identity {
  /** Random, made once. */
  id: string
  /** Of the database whose backup this one was made from. */
  parent?: string
}

export interface OwnerMark {
  database: string
}

export interface OwnerOptions {
  store: ObjectStore
  fs: FileSystem
  /** For the mark on its way to the store and back; a path of this call only. */
  scratch: string
  identity: Identity
  /** The manifest names objects of the store. */
  named: boolean
  /** Keys of objects that were put into the store, some of which may be gone. */
  known(): Promise<readonly string[]>
  /** Id of the database that this one stands in for. */
  takeOverFrom: string
}

/** Makes sure that the store is this database's, and marks it if it is nobody's. @throws CONFLICT when it is another's, and what the store throws. */
export async function requireOwner(options: OwnerOptions): Promise<void> {
  const { store, identity, named, takeOverFrom } = options
  const marked = await readMark(options)
  if (marked === identity.id) return
  if (marked === undefined && takeOverFrom !== identity.id) await requireObjects(options)
  // One without a mark is of a server that made none: of the parent, if objects of it came with the backup.
  const owner = marked ?? (named && takeOverFrom !== identity.id ? identity.parent : undefined)
  if (owner !== undefined && owner !== takeOverFrom) throw othersArchive(store, owner, identity)
  await writeMark(options)
  const now = await readMark(options)
  if (now !== identity.id) throw othersArchive(store, now ?? 'unknown', identity)
}

/** A place without a mark and without the objects is another one than they were put into: a folder whose volume is not mounted. */
async function requireObjects({ store, identity, known }: OwnerOptions): Promise<void> {
  const keys = (await known()).slice(0, LOOKED_FOR)
  for (const key of keys) if ((await store.size(key)) !== undefined) return
  if (keys.length === 0) return
  throw new SvcError(
    'CONFLICT',
    `cannot archive to ${store.name}: it has neither "${OWNER_KEY}" nor what this database put into its archive, such as "${keys[0]}"; see whether the volume is mounted and cold_archive.remote_url is the place that was in use. To begin anew, without what was archived, set cold_archive.take_over_from to "${identity.id}"`,
  )
}

async function readMark({ store, fs, scratch: path }: OwnerOptions): Promise<string | undefined> {
  const { readFile, rm } = fs.promises
  try {
    await store.get(OWNER_KEY, path, MAX_MARK_BYTES)
    const id = databaseOf(new TextDecoder().decode(await readFile(path)))
    if (id === undefined) throw unclear(store, 'it cannot be understood')
    return id
  } catch (error) {
    if (error instanceof SvcError && error.code === 'NOT_FOUND') return undefined
    if (error instanceof SvcError && error.code === 'DATABASE_ERROR') throw unclear(store, error.message)
    throw error
  } finally {
    await rm(path, { force: true })
  }
}

const unclear = ({ name }: ObjectStore, cause: string): SvcError =>
  new SvcError('CONFLICT', `cannot tell whose archive ${name} is by its "${OWNER_KEY}": ${cause}; restore it`)

function databaseOf(text: string): string | undefined {
  try {
    const { database } = JSON.parse(text) as Partial<OwnerMark>
    return typeof database === 'string' ? database : undefined
  } catch {
    return undefined
  }
}

async function writeMark({ store, fs, scratch: path, identity }: OwnerOptions): Promise<void> {
  try {
    const file = await fs.promises.open(path, 'w')
    try {
      await file.writeFile(Buffer.from(JSON.stringify({ database: identity.id } satisfies OwnerMark)))
    } finally {
      await file.close()
    }
    await store.put(OWNER_KEY, path)
  } finally {
    await fs.promises.rm(path, { force: true })
  }
}

function othersArchive({ name }: ObjectStore, owner: string, { id, parent }: Identity): SvcError {
  const whose = owner === parent ? `database ${owner}, from whose backup this one was restored` : `database ${owner}`
  return new SvcError(
    'CONFLICT',
    `cannot archive to ${name}: it belongs to ${whose}, and this is database ${id}; what lies there is read, and nothing is written or removed. Set cold_archive.remote_url to a copy of it, or, if database ${owner} is gone for good, cold_archive.take_over_from to "${owner}"`,
  )
}
