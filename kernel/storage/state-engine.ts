/** A state store of its own, apart from the storage engine: `[state] engine`. */
import { randomUUID } from 'node:crypto'
import { SvcError } from '../lib/errors/index.ts'
import type { StateReader, StateStore } from './state.ts'
import type { Capability, StorageContext, StorageEngine } from './storage.ts'

/** @experimental What the constructor of a state store is given; `config` is the resolved [state] section. */
export type StateContext = Pick<StorageContext, 'config' | 'log' | 'metrics' | 'now'>

/**
 * @experimental What a state store is opened for. shared: by a node, several may. exclusive: nobody else has it, but readers, and nobody begins until it is closed.
 * read: nothing is changed, whoever else has it.
 */
export type StateUse = 'shared' | 'exclusive' | 'read'

/** @experimental A state store as the lifecycle sees it. `close` is safe twice and after a failed `open`. */
export interface StateEngine {
  /**
   * Tries for a bounded time. @param use shared by default. @returns false: nothing was ever kept there, and it was to be read only.
   * @throws CONFIG_ERROR for what will not pass by itself; CONFLICT where others use it so that it cannot be; OVERLOADED.
   */
  open(use?: StateUse): Promise<boolean>
  close(): Promise<void>
  state(owner: string): StateStore
  /** Those that have something in it, in order. */
  owners(): Promise<string[]>
}

/** What the engine has by a state store beside it. */
export const STATE_CAPABILITIES: readonly Capability[] = ['state', 'shared_state']

/** Whose the marks are. */
export const STATE_OWNER = 'kernel'
/** In a store that is out of date: where its state is now, `Marked`. */
export const MOVED = 'state/moved'
/** In a store beside an engine, `Marked`: it has been in use. */
export const MOVED_FROM = 'state/in-use'
/** In a store that is being filled. */
export const COPYING = 'state/copying'

export interface Marked {
  engine: string
  /** Random, of the state: it stays the same where that is copied. Absent in marks of older servers. */
  id?: string
}

export const newStateId = (): string => randomUUID()

/** Name of the storage engine's own state. */
export const OWN_STATE = 'database'

const DISCARD = `svc state discard --from ${OWN_STATE}`

/** Of engines that have been joined: an engine that is opened again, as a test's own, still has its own state. */
const ownState = new WeakMap<StorageEngine, ((owner: string) => StateStore) | undefined>()

/** Has an open engine's callers use another state store. @throws CONFIG_ERROR where that one is not the newest state there is. */
export async function joinState(engine: StorageEngine, state: StateEngine, name: string): Promise<void> {
  const marks = state.state(STATE_OWNER)
  await requireCurrent(marks, name)
  if (!ownState.has(engine)) ownState.set(engine, engine.capabilities.has('state') ? engine.state.bind(engine) : undefined)
  const own = ownState.get(engine)?.(STATE_OWNER)
  const moved = await own?.get<Marked>(MOVED)
  const isEmpty = (await state.owners()).length === 0
  if (isEmpty && moved !== undefined)
    throw refused(
      `cannot keep state in "${name}": it is empty, and this database has used one that was not; bring it back from a backup, or set state back to where it was`,
    )
  if (moved === undefined) await requireNoneLeft(engine, name, isEmpty)
  const id = await markInUse(marks, moved?.id)
  if (moved?.id !== undefined && moved.id !== id)
    throw refused(
      `cannot keep state in "${name}": this database has used another one (its id is ${moved.id}, that of this one ${id}); set state back to where it was, or, to go on with what is in this one, run: ${DISCARD}`,
    )
  if (own !== undefined && moved?.id !== id) await own.transaction((tx) => tx.put(MOVED, { engine: name, id } satisfies Marked))
  const capabilities: ReadonlySet<Capability> = new Set([...engine.capabilities, ...STATE_CAPABILITIES])
  Object.defineProperties(engine, {
    capabilities: { value: capabilities, configurable: true },
    state: { value: (owner: string) => state.state(owner), configurable: true },
  })
}

/** @throws CONFIG_ERROR where an engine's own state, which nobody has moved, would be left behind. */
async function requireNoneLeft(engine: StorageEngine, name: string, isEmpty: boolean): Promise<void> {
  const left = ((await engine.stateOwners?.()) ?? []).filter((owner) => isEmpty || owner !== STATE_OWNER)
  if (left.length === 0) return
  const copy = `svc state copy --from ${OWN_STATE} --to ${name}`
  if (isEmpty) throw refused(`cannot keep state in "${name}": it is empty, and this database has state of ${left.join(', ')}; run: ${copy}`)
  throw refused(
    `cannot keep state in "${name}": it has been in use, and this database has state of its own, of ${left.join(', ')}, that nobody would see any more; to keep that, name an empty place and run ${copy}; to go on with what is in "${name}", run: ${DISCARD}`,
  )
}

/** Of nodes that do so at one time all get one id. @param known is given to a store that an older server has marked. */
function markInUse(marks: StateStore, known: string | undefined): Promise<string> {
  const fresh = known ?? newStateId()
  return marks.transaction(async (tx) => {
    const { engine = OWN_STATE, id = fresh } = (await tx.get<Marked>(MOVED_FROM)) ?? {}
    tx.put(MOVED_FROM, { engine, id } satisfies Marked)
    return id
  })
}

/** @throws CONFIG_ERROR when an engine's own state is out of date. */
export async function requireOwnState(engine: StorageEngine): Promise<void> {
  if (engine.capabilities.has('state')) await requireCurrent(engine.state(STATE_OWNER), OWN_STATE)
}

/** @throws CONFIG_ERROR for a store that is out of date, or half a copy. */
export async function requireCurrent(marks: StateReader, name: string): Promise<void> {
  const moved = await marks.get<Marked>(MOVED)
  if (moved !== undefined)
    throw refused(
      `cannot use the state in "${name}": it was moved to "${moved.engine}", and what was changed there is missing here; set state.engine to "${moved.engine}", or bring it back: svc state copy --from ${moved.engine} --to ${name}`,
    )
  if ((await marks.get(COPYING)) !== undefined) throw refused(`cannot use the state in "${name}": it is half a copy; run svc state copy again`)
}

const refused = (why: string): SvcError => new SvcError('CONFIG_ERROR', why)
