/**
 * Who is told what becomes of a run. A registration knows the number of the next record that its receiver has not had; what is told is read out of the
 * journal, so that nothing else has to be kept. One that has something to tell has a row by the time of its next try.
 */
import type { StateReader, StateTransaction } from 'svcdb'
import type { PushConfig } from 'svcdb/agents'
import { SvcError } from 'svcdb/lib/errors'
import { headOf } from '../store/journal.ts'
import { FINAL, statusOf } from '../store/runs.ts'
import { OPERATOR } from './config.ts'

/** Before a next try, whatever a receiver asks for. */
export const MAX_PAUSE_MS = 3_600_000

export interface PushRow {
  config: PushConfig
  /** Of the first record that the receiver has not taken. */
  next_seq: number
  /** Failures in a row. */
  attempts: number
  last_error?: string
  /** Milliseconds since the Unix epoch: of the next try; absent = nothing is to be told now. */
  due?: number
  parked?: boolean
}

const rowKey = (run: string, id: string): string => `push/of/${run}/${id}`
const dueKey = (due: number, run: string, id: string): string => `push/due/${String(due).padStart(16, '0')}/${run}/${id}`
const parkedKey = (run: string, id: string): string => `push/parked/${run}/${id}`

export function pushOf(state: StateReader, run: string, id: string): Promise<PushRow | undefined> {
  return state.get<PushRow>(rowKey(run, id))
}

/**
 * With the run's admission, or later: it is told all from the beginning. One of the same id gets another receiver. @param most of a run, beside the operator's:
 * all are looked at whenever something happens to it. @throws SvcError BAD_REQUEST.
 */
export async function register(tx: StateTransaction, run: string, config: PushConfig, now: number, most = Number.POSITIVE_INFINITY): Promise<void> {
  const known = await pushOf(tx, run, config.id)
  if (known !== undefined) forget(tx, run, known)
  else if (!config.id.startsWith(OPERATOR)) {
    const others = (await tx.list({ prefix: `push/of/${run}/` })).filter(({ key }) => !key.startsWith(rowKey(run, OPERATOR)))
    if (others.length >= most)
      throw new SvcError('BAD_REQUEST', `cannot register a push of "${run}": it has ${others.length} already; see agent_plane.max_pushes_per_run`)
  }
  put(tx, run, { config, next_seq: known?.next_seq ?? 1, attempts: 0, due: now })
}

function forget(tx: StateTransaction, run: string, { config: { id }, due }: PushRow): void {
  if (due !== undefined) tx.delete(dueKey(due, run, id))
  tx.delete(parkedKey(run, id))
  tx.delete(rowKey(run, id))
}

function put(tx: StateTransaction, run: string, row: PushRow): void {
  const { id } = row.config
  tx.put(rowKey(run, id), row)
  if (row.due !== undefined) tx.put(dueKey(row.due, run, id), { run, id })
  if (row.parked) tx.put(parkedKey(run, id), { run, id })
}

/** Something has happened to a run that those who have registered are to be told. In the transaction that keeps it. */
export async function touch(tx: StateTransaction, run: string, now: number): Promise<void> {
  for (const { value: row } of await tx.list<PushRow>({ prefix: `push/of/${run}/` }))
    if (row.due === undefined && !row.parked) put(tx, run, { ...row, due: now })
}

/** Those whose time has come, the longest overdue first. @param after a key of theirs: what comes behind it. */
export async function duePushes(state: StateReader, now: number, limit: number, after = ''): Promise<{ run: string; id: string; key: string }[]> {
  const prefix = 'push/due/'
  const at = (ms: number): string => `${prefix}${String(ms).padStart(16, '0')}`
  const behind = after === '' ? prefix : `${after}\0`
  const found: { run: string; id: string; key: string }[] = []
  // What lies further ahead than any pause was noted by a wrong clock.
  for (const { start, end } of [{ start: prefix, end: at(now + 1) }, { start: at(now + MAX_PAUSE_MS + 1) }] as { start: string; end?: string }[]) {
    const from = start > behind ? start : behind
    if (found.length >= limit || (end !== undefined && end <= from)) continue
    const range = { prefix, start: from, ...(end === undefined ? {} : { end }), limit: limit - found.length }
    for (const { key, value } of await state.list<{ run: string; id: string }>(range)) found.push({ ...value, key })
  }
  return found
}

/** Takes a row out that no registration has any more. */
export async function clear(tx: StateTransaction, run: string, id: string, key: string): Promise<void> {
  const row = await pushOf(tx, run, id)
  if (row?.due === undefined || dueKey(row.due, run, id) !== key) tx.delete(key)
}

/** There is no room for it now: it comes later, and has not failed. */
export async function putOff(tx: StateTransaction, { run, id, key }: { run: string; id: string; key: string }, due: number): Promise<void> {
  const row = await pushOf(tx, run, id)
  if (row?.due === undefined || dueKey(row.due, run, id) !== key) return
  forget(tx, run, row)
  put(tx, run, { ...row, due })
}

/** Nothing is told to it any more. */
export async function unregister(tx: StateTransaction, run: string, id: string): Promise<void> {
  const row = await pushOf(tx, run, id)
  if (row !== undefined) forget(tx, run, row)
}

/** The receiver has had all before this record, or there was nothing to tell of it. @returns whether there is more to tell. */
export async function advance(tx: StateTransaction, run: string, id: string, seq: number, now: number): Promise<boolean> {
  const row = await pushOf(tx, run, id)
  if (row === undefined || row.next_seq > seq || row.parked) return false
  forget(tx, run, row)
  const isMore = (await headOf(tx, run)).seq >= seq
  const status = await statusOf(tx, run)
  // Nothing will follow.
  if (!isMore && status !== undefined && FINAL.has(status)) return false
  put(tx, run, { config: row.config, next_seq: seq, attempts: 0, ...(isMore ? { due: now } : {}) })
  return isMore
}

/** A try has failed. @param due of the next one; undefined = it is parked. */
export async function fail(tx: StateTransaction, run: string, id: string, seq: number, error: string, due: number | undefined): Promise<void> {
  const row = await pushOf(tx, run, id)
  if (row === undefined || row.next_seq !== seq || row.parked) return
  forget(tx, run, row)
  const attempts = row.attempts + 1
  put(tx, run, { config: row.config, next_seq: seq, attempts, last_error: error, ...(due === undefined ? { parked: true } : { due }) })
}

/** It is tried again, at once, from the record at which it was parked. @returns whether it was. */
export async function rearm(tx: StateTransaction, run: string, id: string, now: number): Promise<boolean> {
  const row = await pushOf(tx, run, id)
  if (row === undefined || !row.parked) return false
  forget(tx, run, row)
  put(tx, run, { config: row.config, next_seq: row.next_seq, attempts: 0, due: now, ...(row.last_error === undefined ? {} : { last_error: row.last_error }) })
  return true
}

/** In the order of runs. */
export async function parkedPushes(state: StateReader, limit: number): Promise<{ run: string; row: PushRow }[]> {
  const found: { run: string; row: PushRow }[] = []
  for (const { value } of await state.list<{ run: string; id: string }>({ prefix: 'push/parked/', limit })) {
    const row = await pushOf(state, value.run, value.id)
    if (row !== undefined) found.push({ run: value.run, row })
  }
  return found
}
