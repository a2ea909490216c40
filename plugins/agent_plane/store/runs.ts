/** How runs stand, by status and newest first; keys that runs were begun with; and stops that were asked for. */
import type { StateReader, StateTransaction } from 'svcdb'
import type { Operator } from 'svcdb/agents'
import { digest, newestFirst } from '../record/names.ts'
import { enlist, strike } from './waits.ts'

export type Status = 'running' | 'suspended' | Conclusion | NoticeStatus
export type Conclusion = 'succeeded' | 'failed' | 'exhausted' | 'quarantined' | 'withheld' | 'cancelled' | 'abandoned'
/** Of a run without steps, that says what a sweep or an operator did. */
export type NoticeStatus = 'swept' | 'hold-released' | 'halt-lifted' | 'broke-glass' | 'observed'

/** Nothing changes them any more, and they are sealed. */
export const FINAL: ReadonlySet<Status> = new Set<Status>([
  'succeeded',
  'cancelled',
  'abandoned',
  'swept',
  'hold-released',
  'halt-lifted',
  'broke-glass',
  'observed',
])

/** How a run may be concluded; nothing else is asked of the index. */
export const CONCLUSIONS: ReadonlySet<string> = new Set<Status>([...FINAL, 'failed', 'exhausted', 'quarantined', 'withheld'])

const statusKey = (run: string): string => `status/${run}`
const indexKey = (status: Status, run: string): string => `index/${status}/${newestFirst(run)}`

const landedKey = (run: string): string => `index/failed_landed/${newestFirst(run)}`

export function statusOf(state: StateReader, run: string): Promise<Status | undefined> {
  return state.get<Status>(statusKey(run))
}

export async function setStatus(tx: StateTransaction, run: string, status: Status): Promise<void> {
  const before = await statusOf(tx, run)
  if (before === status) return
  if (before !== undefined) tx.delete(indexKey(before, run))
  if (before === 'failed') tx.delete(landedKey(run))
  if (before === 'suspended') await strike(tx, run)
  tx.put(statusKey(run), status)
  tx.put(indexKey(status, run), run)
  if (status === 'suspended') await enlist(tx, run)
}

/** Of a run that has failed and left something behind that was not undone; it is forgotten when the run stands otherwise. */
export function markLanded(tx: StateTransaction, run: string): void {
  tx.put(landedKey(run), run)
}

/** Newest first. */
export async function failedWithLandedWork(state: StateReader, limit: number): Promise<string[]> {
  return (await state.list<string>({ prefix: 'index/failed_landed/', limit })).map(({ value }) => value)
}

/** Newest first. */
export async function runsOf(state: StateReader, status: Status, limit: number): Promise<string[]> {
  return (await state.list<string>({ prefix: `index/${status}/`, limit })).map(({ value }) => value)
}

const idempotencyKey = (key: string): string => `key/${digest('svc.idempotency.v1', key)}`

export function runOfKey(state: StateReader, key: string): Promise<string | undefined> {
  return state.get<string>(idempotencyKey(key))
}

export function claimKey(tx: StateTransaction, key: string, run: string): void {
  tx.put(idempotencyKey(key), run)
}

/** A stop that stands. */
export interface Cancellation {
  by: Operator
  reason: string
}

export function cancellationOf(state: StateReader, run: string): Promise<Cancellation | undefined> {
  return state.get<Cancellation>(`cancel/${run}`)
}

/** The first who asks stays on record. */
export async function requestCancel(tx: StateTransaction, run: string, asked: Cancellation): Promise<{ cancellation: Cancellation; recorded: boolean }> {
  const standing = await cancellationOf(tx, run)
  if (standing !== undefined) return { cancellation: standing, recorded: false }
  tx.put(`cancel/${run}`, asked)
  return { cancellation: asked, recorded: true }
}
