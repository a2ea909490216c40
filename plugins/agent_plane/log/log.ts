/**
 * The transparency log: the last hash of each sealed run is a leaf of a Merkle tree that only grows. A run that is concluded waits in a row of its own, and is
 * entered a moment later together with others, so that runs that end at one time do not meet in one row. What has the last root of before sees when a run was
 * changed, taken away or put in between.
 */
import type { StateReader, StateTransaction } from 'svcdb'
import { headOf } from '../store/journal.ts'
import { extended, type Frontier, leafHash, rootOf } from './merkle.ts'

const DIGITS = 12

/** What somebody outside would keep of a log. */
interface Checkpoint {
  origin: string
  size: number
  /** Hexadecimal. */
  root: string
}

interface Leaf {
  run: string
  /** Of its last record, hexadecimal. */
  hash: string
}

interface LogHead {
  size: number
  frontier: Frontier
}

const leafKey = (index: number): string => `log/leaf/${String(index).padStart(DIGITS, '0')}`
const runKey = (run: string): string => `log/run/${run}`
const pendingKey = (run: string): string => `log/pending/${run}`

async function logHead(state: StateReader): Promise<LogHead> {
  return (await state.get<LogHead>('log/head')) ?? { size: 0, frontier: [] }
}

/** In the transaction that concludes a run for good. */
export function awaitSealing(tx: StateTransaction, run: string): void {
  tx.put(pendingKey(run), run)
}

/** Runs that are concluded and not in the log yet, in the order in which they were begun. */
export async function unsealed(state: StateReader, limit: number): Promise<string[]> {
  return (await state.list<string>({ prefix: 'log/pending/', limit })).map(({ value }) => value)
}

/** Enters those of these runs that wait. @returns how many. */
export async function sealRuns(tx: StateTransaction, runs: readonly string[]): Promise<number> {
  let { size, frontier } = await logHead(tx)
  const before = size
  for (const run of runs) {
    if ((await tx.get(pendingKey(run))) === undefined) continue
    const { hash } = await headOf(tx, run)
    tx.put(leafKey(size), { run, hash } satisfies Leaf)
    tx.put(runKey(run), { index: size, hash })
    tx.delete(pendingKey(run))
    frontier = extended(frontier, size, leafHash(hash))
    size++
  }
  if (size > before) tx.put('log/head', { size, frontier } satisfies LogHead)
  return size - before
}

/** Whether the log has the run as it stands now. */
export async function isSealed(state: StateReader, run: string): Promise<boolean> {
  const entry = await state.get<{ hash: string }>(runKey(run))
  return entry !== undefined && entry.hash === (await headOf(state, run)).hash
}

export async function checkpointOf(state: StateReader, origin: string): Promise<Checkpoint> {
  const { size, frontier } = await logHead(state)
  return { origin, size, root: rootOf(frontier) }
}

/** @param from index of the first one wanted. */
export async function leaves(state: StateReader, from: number, limit: number): Promise<Leaf[]> {
  return (await state.list<Leaf>({ prefix: 'log/leaf/', start: leafKey(from), limit })).map(({ value }) => value)
}

/** Where the log has a run, and with which hash; undefined = nowhere. */
export function leafOf(state: StateReader, run: string): Promise<{ index: number; hash: string } | undefined> {
  return state.get(runKey(run))
}

/** Whether the entry of a run is at this place. */
export async function isAt(state: StateReader, run: string, index: number): Promise<boolean> {
  return (await state.get<{ index: number }>(runKey(run)))?.index === index
}

/** Whether there is an entry of the run, whatever it says. */
export async function isEntered(state: StateReader, run: string): Promise<boolean> {
  return (await state.get(runKey(run))) !== undefined
}

/** Whether the run is concluded and not in the log yet. */
export async function isWaiting(state: StateReader, run: string): Promise<boolean> {
  return (await state.get(pendingKey(run))) !== undefined
}
