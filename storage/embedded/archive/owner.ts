/**
 * Whose objects lie in a store. A database marks the store as its own before it writes or removes anything there; another one may read, since a
 * database restored from a backup names objects of the one it came from, and is refused everything else: each would remove objects that the other
 * has committed. A copy of the data directory has the same id: each process that is to write therefore puts a token of its own into the mark, which
 * only who knows the token there may do, and who finds another one there has been followed by a copy. Layout: docs/formats/archive.md.
 *
 * Invariants
 * - A token is noted here before it is in the store: after a crash the database knows its own.
 * - Where the store can create an object that was not there, a mark is changed only under a claim, an object named by the token before, and after it was
 *   read once more under the claim: of two copies one gets on. Elsewhere the one whose mark is there has the store from the next pass on.
 * - A token that was noted before this process began may be known to a copy as well: it is put there, and followed by another. Copies of a directory whose
 *   process was killed between the two may both get on, and again one of them from the next pass on.
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
  /** Of the process that wrote it; absent in those of older servers. */
  token?: string
}

/** What a database remembers of its mark. */
export interface Claim {
  /** In the mark. */
  token?: string
  /** That may be in the mark: how far the last claim got is not known. */
  next?: string
  /** The object of that claim. */
  object?: string
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
  /** Id of the database that this one stands in for, or token of the copy. */
  takeOverFrom: string
  claims: { read(): Promise<Claim>; write(claim: Claim): Promise<void> }
  /** The token that this process has put there. */
  held: string | undefined
  /** Random, another at each call. */
  newToken(): string
}

/**
 * Makes sure that the store is this database's, and this copy's, and marks it if it is nobody's. One at a time.
 * @returns the token that is held. @throws CONFLICT when it is another's, and what the store throws.
 */
export async function requireOwner(options: OwnerOptions): Promise<string> {
  const { store, identity, named, takeOverFrom, held, claims } = options
  const mark = await readMark(options)
  const isOwn = mark?.database === identity.id
  if (isOwn && held !== undefined && mark.token === held) return held
  const own = await claims.read()
  if (isOwn) {
    const known = held === undefined ? [own.token, own.next] : [held]
    if (mark.token !== undefined && mark.token !== takeOverFrom && !known.includes(mark.token)) throw copysArchive(store, mark.token)
  } else {
    if (mark === undefined && takeOverFrom !== identity.id) await requireObjects(options)
    // One without a mark is of a server that made none: of the parent, if objects of it came with the backup.
    const owner = mark?.database ?? (named && takeOverFrom !== identity.id ? identity.parent : undefined)
    if (owner !== undefined && owner !== takeOverFrom) throw othersArchive(store, owner, identity)
  }
  return claimed(options, mark, own)
}

/** Puts a token into the mark that no copy knows. @param own what was noted before. */
async function claimed(options: OwnerOptions, mark: OwnerMark | undefined, own: Claim): Promise<string> {
  const { store, identity, claims, newToken } = options
  const { next, object } = own
  const arrived = next !== undefined && mark?.token === next
  if (arrived && object !== undefined) await tidy(store, object)
  for (let before = mark, pending = arrived ? undefined : next; ; pending = undefined) {
    const token = pending ?? newToken()
    const claim = `svc-owner-claim-${before?.token ?? before?.database ?? 'none'}.json`
    await claims.write({ ...(before?.database === identity.id && before.token !== undefined && { token: before.token }), next: token, object: claim })
    if (!(await take(options, claim, token)))
      throw new SvcError(
        'CONFLICT',
        `cannot archive to ${store.name}: another copy of this database is about to (object "${claim}"); run one of them only. If none is, remove that object`,
      )
    const found = await readMark(options)
    if (found?.database !== before?.database || found?.token !== before?.token) {
      await tidy(store, claim)
      throw followed(store, found, identity)
    }
    const after = { database: identity.id, token } satisfies OwnerMark
    await write(options, OWNER_KEY, after)
    const now = await readMark(options)
    if (now?.database !== identity.id || now.token !== token) throw followed(store, now, identity)
    await tidy(store, claim)
    await claims.write({ token })
    if (pending === undefined) return token
    before = after
  }
}

/** Of a claim under which nothing can be changed any more. What cannot be removed does no harm. */
async function tidy(store: ObjectStore, claim: string): Promise<void> {
  await store.remove(claim).catch(() => {})
}

/** @returns whether the claim is this one's, of this call or of one that was broken off. */
async function take(options: OwnerOptions, claim: string, token: string): Promise<boolean> {
  const { store, fs, scratch } = options
  if (store.create === undefined) return true
  try {
    await fill(options, { token })
    if (await store.create(claim, scratch)) return true
  } finally {
    await fs.promises.rm(scratch, { force: true })
  }
  return (await readJson<{ token: string }>(options, claim))?.token === token
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

async function readMark(options: OwnerOptions): Promise<OwnerMark | undefined> {
  try {
    const mark = await readJson<OwnerMark>(options, OWNER_KEY)
    if (mark === undefined) return undefined
    const { database, token } = mark
    if (typeof database !== 'string') throw unclear(options.store, 'it cannot be understood')
    return { database, ...(typeof token === 'string' && { token }) }
  } catch (error) {
    if (error instanceof SvcError && error.code === 'DATABASE_ERROR') throw unclear(options.store, error.message)
    throw error
  }
}

/** @returns undefined where there is none; {} for what is no object of JSON. */
async function readJson<T>({ store, fs, scratch }: OwnerOptions, key: string): Promise<Partial<T> | undefined> {
  const { readFile, rm } = fs.promises
  try {
    await store.get(key, scratch, MAX_MARK_BYTES)
    return objectIn<T>(new TextDecoder().decode(await readFile(scratch)))
  } catch (error) {
    if (error instanceof SvcError && error.code === 'NOT_FOUND') return undefined
    throw error
  } finally {
    await rm(scratch, { force: true })
  }
}

const unclear = ({ name }: ObjectStore, cause: string): SvcError =>
  new SvcError('CONFLICT', `cannot tell whose archive ${name} is by its "${OWNER_KEY}": ${cause}; restore it`)

function objectIn<T>(text: string): Partial<T> {
  try {
    return { ...(JSON.parse(text) as Partial<T>) }
  } catch {
    return {}
  }
}

async function write(options: OwnerOptions, key: string, value: object): Promise<void> {
  const { store, fs, scratch } = options
  try {
    await fill(options, value)
    await store.put(key, scratch)
  } finally {
    await fs.promises.rm(scratch, { force: true })
  }
}

async function fill({ fs, scratch }: OwnerOptions, value: object): Promise<void> {
  const file = await fs.promises.open(scratch, 'w')
  try {
    await file.writeFile(Buffer.from(JSON.stringify(value)))
  } finally {
    await file.close()
  }
}

function copysArchive({ name }: ObjectStore, token = ''): SvcError {
  return new SvcError(
    'CONFLICT',
    `cannot archive to ${name}: another copy of this data directory has written there since (token ${token}); what lies there is read, and nothing is written or removed. Run one copy only, or give this one a copy of the store; if the other one is gone for good, set cold_archive.take_over_from to "${token}"`,
  )
}

/** @param mark that is there in place of the one that was read, or written, before. */
function followed(store: ObjectStore, mark: OwnerMark | undefined, identity: Identity): SvcError {
  if (mark === undefined)
    return new SvcError(
      'CONFLICT',
      `cannot archive to ${store.name}: "${OWNER_KEY}" was there a moment ago and is not found now; somebody has removed it, or the store does not show at once what was written. The next run looks again`,
    )
  return mark.database === identity.id ? copysArchive(store, mark.token) : othersArchive(store, mark.database, identity)
}

function othersArchive({ name }: ObjectStore, owner: string, { id, parent }: Identity): SvcError {
  const whose = owner === parent ? `database ${owner}, from whose backup this one was restored` : `database ${owner}`
  return new SvcError(
    'CONFLICT',
    `cannot archive to ${name}: it belongs to ${whose}, and this is database ${id}; what lies there is read, and nothing is written or removed. Set cold_archive.remote_url to a copy of it, or, if database ${owner} is gone for good, cold_archive.take_over_from to "${owner}"`,
  )
}
