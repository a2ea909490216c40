/**
 * All state of one store into another: for a move. And out of one, for a database that goes on with the state of others.
 *
 * Invariants
 * - Nobody else writes either of them meanwhile: that is the caller's word.
 * - The target has a mark from before the first entry until it is compared with the source: a copy that was broken off is begun anew, and no node starts on it.
 * - The source is marked as moved last, when all of it is in the target.
 */
import { createHash } from 'node:crypto'
import { SvcError } from '../lib/errors/index.ts'
import type { StateEntry, StateStore } from './state.ts'
import { COPYING, type Marked, MOVED, MOVED_FROM, newStateId, STATE_OWNER } from './state-engine.ts'

/** Entries of one listing: each may have a MiB. */
const PAGE = 128
/** Characters of JSON that one transaction writes, or one entry: a store has a time limit, and a bound, for each. */
const MAX_WRITTEN = 4 << 20

export interface StateSide {
  /** As messages and marks have it. */
  name: string
  state(owner: string): StateStore
  owners(): Promise<string[]>
}

interface Copied {
  owners: number
  entries: number
}

/** Of the stores themselves. */
const MARKS: readonly string[] = [MOVED, MOVED_FROM, COPYING]

/** @throws CONFLICT when the target has state, or differs afterwards; what the stores throw. */
export async function copyState(from: StateSide, to: StateSide): Promise<Copied> {
  await requireCurrent(from)
  await makeReady(to)
  const copied: Copied = { owners: 0, entries: 0 }
  for (const owner of await from.owners()) {
    let entries = 0
    for await (const page of pages(from.state(owner))) {
      const own = page.filter(({ key }) => !isMark(owner, key))
      for (const some of portions(own))
        await to.state(owner).transaction((tx) => {
          for (const { key, value } of some) tx.put(key, value)
        })
      entries += own.length
    }
    const [before, after] = [await digestOf(from.state(owner), owner), await digestOf(to.state(owner), owner)]
    if (before !== after)
      throw new SvcError('CONFLICT', `cannot copy state of "${owner}": it differs in "${to.name}"; stop everything that uses either, and copy again`)
    copied.entries += entries
    if (entries > 0) copied.owners++
  }
  const { id = newStateId() } = (await from.state(STATE_OWNER).get<Marked>(MOVED_FROM)) ?? {}
  await to.state(STATE_OWNER).transaction((tx) => {
    tx.put(MOVED_FROM, { engine: from.name, id } satisfies Marked)
    tx.delete(COPYING)
    tx.delete(MOVED)
  })
  await from.state(STATE_OWNER).transaction((tx) => {
    tx.put(MOVED, { engine: to.name, id } satisfies Marked)
    tx.delete(MOVED_FROM)
  })
  return copied
}

/** Gives up all that a store has, marks included. @returns what that was. */
export async function discardState({ state, owners }: StateSide): Promise<Copied> {
  const discarded: Copied = { owners: 0, entries: 0 }
  for (const owner of await owners()) {
    let entries = 0
    for await (const page of pages(state(owner))) {
      await state(owner).transaction((tx) => {
        for (const { key } of page) tx.delete(key)
      })
      entries += page.filter(({ key }) => !isMark(owner, key)).length
    }
    discarded.entries += entries
    if (entries > 0) discarded.owners++
  }
  return discarded
}

const isMark = (owner: string, key: string): boolean => owner === STATE_OWNER && MARKS.includes(key)

/** @throws CONFLICT for a source that is half a copy, or out of date. */
async function requireCurrent({ name, state }: StateSide): Promise<void> {
  const marks = state(STATE_OWNER)
  if ((await marks.get(COPYING)) !== undefined)
    throw new SvcError('CONFLICT', `cannot copy the state of "${name}": it is half a copy itself; finish that first`)
  const moved = await marks.get<Marked>(MOVED)
  if (moved !== undefined)
    throw new SvcError('CONFLICT', `cannot copy the state of "${name}": it was moved to "${moved.engine}" and is out of date; copy from there`)
}

/** Empties what is half a copy, or was moved away. @throws CONFLICT for state that is in use. */
async function makeReady(to: StateSide): Promise<void> {
  const marks = to.state(STATE_OWNER)
  const outdated = (await marks.get(COPYING)) !== undefined || (await marks.get(MOVED)) !== undefined
  for (const owner of await to.owners()) {
    const state = to.state(owner)
    for await (const page of pages(state)) {
      const own = page.filter(({ key }) => !isMark(owner, key))
      if (own.length === 0) continue
      if (!outdated) throw new SvcError('CONFLICT', `cannot copy state to "${to.name}": it has state of "${owner}"; name an empty schema or data directory`)
      await state.transaction((tx) => {
        for (const { key } of own) tx.delete(key)
      })
    }
  }
  await marks.transaction((tx) => tx.put(COPYING, true))
}

function* portions(entries: readonly StateEntry<unknown>[]): Generator<StateEntry<unknown>[]> {
  let some: StateEntry<unknown>[] = []
  let written = 0
  for (const entry of entries) {
    const more = entry.key.length + JSON.stringify(entry.value).length
    if (some.length > 0 && written + more > MAX_WRITTEN) {
      yield some
      some = []
      written = 0
    }
    some.push(entry)
    written += more
  }
  if (some.length > 0) yield some
}

async function* pages(state: StateStore): AsyncGenerator<StateEntry<unknown>[]> {
  for (let start = ''; ; ) {
    const page = await state.list<unknown>({ start, limit: PAGE })
    if (page.length > 0) yield page
    if (page.length < PAGE) return
    start = `${page[page.length - 1].key}\0`
  }
}

async function digestOf(state: StateStore, owner: string): Promise<string> {
  const whole = createHash('sha256')
  for await (const page of pages(state)) for (const { key, value } of page) if (!isMark(owner, key)) whole.update(`${JSON.stringify([key, value])}\n`)
  return whole.digest('hex')
}
