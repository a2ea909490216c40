/**
 * Legal holds on cases: what is held is not erased. The first who places one stays on record. Its release is journalled, in the transaction that ends it, as
 * the only record of a run of its own: who and when, never why.
 */
import type { StateReader, StateTransaction } from 'svcdb'
import type { Operator } from 'svcdb/agents'
import { decode } from '../record/record.ts'
import { recordsOf } from '../store/journal.ts'
import { runsOf } from '../store/runs.ts'
import { writeSealedRun } from '../store/sealed-run.ts'
import { number } from '../store/waits.ts'
import { knownCase } from './case-store.ts'

export interface HoldRow {
  case: string
  /** Seconds since the Unix epoch. */
  placed: number
  reason: string
  by: Operator
}

interface ReleasedHold {
  case: string
  by: Operator
  /** Seconds since the Unix epoch, as is `placed`. */
  at: number
  placedBy: Operator
  placed: number
  /** The run that says so. */
  record: string
}

const holdKey = (id: string): string => `hold/${id}`
const orderKey = ({ case: id, placed }: HoldRow): string => `hold-order/${number(placed)}/${id}`

/** That stands. */
export function holdOf(state: StateReader, id: string): Promise<HoldRow | undefined> {
  return state.get<HoldRow>(holdKey(id))
}

/** @returns the one that stands then. @throws SvcError NOT_FOUND. */
export async function placeHold(tx: StateTransaction, asked: HoldRow): Promise<{ placed: boolean; inForce: HoldRow }> {
  await knownCase(tx, asked.case)
  const standing = await holdOf(tx, asked.case)
  if (standing !== undefined) return { placed: false, inForce: standing }
  tx.put(holdKey(asked.case), asked)
  tx.put(orderKey(asked), asked.case)
  return { placed: true, inForce: asked }
}

/** @param run a new id. @param now milliseconds since the Unix epoch. @returns whether there was one. @throws SvcError NOT_FOUND. */
export async function releaseHold(tx: StateTransaction, id: string, by: Operator, run: string, now: number): Promise<boolean> {
  await knownCase(tx, id)
  const standing = await holdOf(tx, id)
  if (standing === undefined) return false
  tx.delete(holdKey(id))
  tx.delete(orderKey(standing))
  const payload = { by, at: Math.floor(now / 1000), placed_by: standing.by, placed_at: standing.placed }
  await writeSealedRun(tx, run, 'hold-released', [{ kind: 'HoldReleased', case: id, payload }], now)
  return true
}

/** Oldest first. */
export async function standingHolds(state: StateReader, limit: number): Promise<HoldRow[]> {
  const ids = await state.list<string>({ prefix: 'hold-order/', limit })
  const rows = await Promise.all(ids.map(({ value }) => holdOf(state, value)))
  return rows.filter((row) => row !== undefined)
}

/** Newest first. */
export async function releasedHolds(state: StateReader, limit: number): Promise<ReleasedHold[]> {
  const found: ReleasedHold[] = []
  for (const record of await runsOf(state, 'hold-released', limit)) {
    const [sealed] = await recordsOf(state, record, 1, 1)
    const { case: matter, payload } = decode(sealed.raw)
    const { by, at, placed_by, placed_at } = payload as { by: Operator; at: number; placed_by: Operator; placed_at: number }
    found.push({ case: matter as string, by, at, placedBy: placed_by, placed: placed_at, record })
  }
  return found
}
