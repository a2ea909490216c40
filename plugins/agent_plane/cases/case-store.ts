/**
 * Cases: long-lived matters that runs share. A case is found by its correlation keys, and a key belongs to one open case. Each write of the case raises its
 * version; the runs of a case are rows of their own, so that a run that joins is no conflict with one that writes.
 */
import type { StateReader, StateTransaction } from 'svcdb'
import type { CaseStatus, CorrelationKey, Json } from 'svcdb/agents'
import { SvcError } from 'svcdb/lib/errors'
import { canonical } from '../record/canonical.ts'
import { digest, isCaseId, newestFirst } from '../record/names.ts'

const MAX_KEYS = 16
const MAX_KEY_TEXT = 256
const MAX_STATE_BYTES = 1 << 18
const KIND = /^[a-z][a-z0-9_-]*(\.[a-z0-9_-]+)*$/
const MAX_KIND = 128

export const CASE_STATUSES: readonly CaseStatus[] = ['open', 'awaiting_external', 'awaiting_human', 'escalated', 'closed']

export interface CaseRow {
  id: string
  kind: string
  status: CaseStatus
  /** That it has, and had when it was closed. */
  correlation: CorrelationKey[]
  state: Json
  /** 0 when it is opened. */
  version: number
  /** Milliseconds since the Unix epoch. */
  opened: number
}

const caseKey = (id: string): string => `case/${id}`
const statusKey = (status: CaseStatus, id: string): string => `case-status/${status}/${newestFirst(id)}`
const openKey = (key: CorrelationKey): string => `case-key/${digest('svc.case.key.v1', [key.namespace, key.value])}`
const runKey = (id: string, run: string): string => `case-run/${id}/${run}`
const sweptKey = (id: string, run: string): string => `case-told/${id}/${run}`

export function caseOf(state: StateReader, id: string): Promise<CaseRow | undefined> {
  return state.get<CaseRow>(caseKey(id))
}

/** @throws SvcError NOT_FOUND. */
export async function knownCase(state: StateReader, id: string): Promise<CaseRow> {
  const row = isCaseId(id) ? await caseOf(state, id) : undefined
  if (row === undefined)
    throw new SvcError('NOT_FOUND', `cannot find case ${JSON.stringify(id.slice(0, 64))}: there is none; check the id, and whose tenant it is`)
  return row
}

/** The open case that has one of these keys, the first of them that is one's. */
export async function openCaseOf(state: StateReader, keys: readonly CorrelationKey[]): Promise<string | undefined> {
  for (const key of keys) {
    const id = await state.get<string>(openKey(key))
    if (id !== undefined) return id
  }
  return undefined
}

/** @throws SvcError BAD_REQUEST for a kind or keys that are none. */
export function checkCase(kind: string, keys: readonly CorrelationKey[]): void {
  const refuse = (why: string) => new SvcError('BAD_REQUEST', `cannot use case: ${why}`)
  if (kind.length > MAX_KIND || !KIND.test(kind)) throw refuse(`the kind ${JSON.stringify(kind.slice(0, 64))} is not words of a-z, 0-9, "_" and "-" with dots`)
  if (keys.length === 0 || keys.length > MAX_KEYS) throw refuse(`it has 1 to ${MAX_KEYS} correlation keys`)
  for (const text of keys.flatMap(({ namespace, value }) => [namespace, value]))
    if (typeof text !== 'string' || text === '' || text.length > MAX_KEY_TEXT || !text.isWellFormed())
      throw refuse(`namespace and value of a key have 1 to ${MAX_KEY_TEXT} characters`)
}

/** With version 0. @param keys that no open case has. @param now milliseconds since the Unix epoch. */
export function openCase(tx: StateTransaction, id: string, kind: string, keys: readonly CorrelationKey[], now: number): CaseRow {
  const row: CaseRow = { id, kind, status: 'open', correlation: [...keys], state: null, version: 0, opened: Math.floor(now) }
  tx.put(caseKey(id), row)
  tx.put(statusKey('open', id), id)
  for (const key of keys) tx.put(openKey(key), id)
  return row
}

/** @throws SvcError CONFLICT for another version than it has, BAD_REQUEST for a state that is too large. */
export async function putState(tx: StateTransaction, id: string, expected: number, state: Json): Promise<number> {
  const row = await knownCase(tx, id)
  if (row.version !== expected)
    throw new SvcError('CONFLICT', `cannot write the state of "${id}": it is at version ${row.version}, and not at ${expected}; read it and decide again`)
  if (Buffer.byteLength(canonical(state)) > MAX_STATE_BYTES)
    throw new SvcError('BAD_REQUEST', `cannot write the state of "${id}": it has more than ${MAX_STATE_BYTES} bytes`)
  tx.put(caseKey(id), { ...row, state, version: row.version + 1 } satisfies CaseRow)
  return row.version + 1
}

/** Keys go free when it is closed; opened again it takes back those that are still free, and has those only. The same status changes nothing. */
export async function writeStatus(tx: StateTransaction, id: string, to: CaseStatus): Promise<CaseRow> {
  const row = await knownCase(tx, id)
  if (row.status === to) return row
  const next: CaseRow = { ...row, status: to, version: row.version + 1 }
  if (row.status === 'closed') {
    const free = await Promise.all(row.correlation.map(async (key) => (await tx.get(openKey(key))) === undefined))
    next.correlation = row.correlation.filter((_, index) => free[index])
    for (const key of next.correlation) tx.put(openKey(key), id)
  } else if (to === 'closed') for (const key of row.correlation) tx.delete(openKey(key))
  tx.delete(statusKey(row.status, id))
  tx.put(statusKey(to, id), id)
  tx.put(caseKey(id), next)
  return next
}

/** Newest first. */
export async function casesOf(state: StateReader, status: CaseStatus, limit: number): Promise<CaseRow[]> {
  const ids = await state.list<string>({ prefix: `case-status/${status}/`, limit })
  const rows = await Promise.all(ids.map(({ value }) => caseOf(state, value)))
  return rows.filter((row) => row !== undefined)
}

/** In the order in which they were opened. @param after of the page before. */
export async function caseIds(state: StateReader, after: string | undefined, limit: number): Promise<string[]> {
  const page = await state.list<CaseRow>({ prefix: 'case/', ...(after === undefined ? {} : { start: `${caseKey(after)}\0` }), limit })
  return page.map(({ key }) => key.slice('case/'.length))
}

export function attachRun(tx: StateTransaction, id: string, run: string): void {
  tx.put(runKey(id, run), run)
}

/** In the order in which they were begun. */
export async function runsOfCase(state: StateReader, id: string, limit: number): Promise<string[]> {
  return (await state.list<string>({ prefix: `case-run/${id}/`, limit })).map(({ value }) => value)
}

/** A run that is not in the case has a record about it. */
export function noteAbout(tx: StateTransaction, id: string, run: string): void {
  tx.put(sweptKey(id, run), run)
}

/** Runs with records of the case, those that are not in it included, in the order in which they were begun. */
export async function runsAbout(state: StateReader, id: string, limit: number): Promise<string[]> {
  const told = (await state.list<string>({ prefix: `case-told/${id}/`, limit })).map(({ value }) => value)
  return [...(await runsOfCase(state, id, limit)), ...told].sort()
}

/** What is wrong with the rows of a case; empty = nothing. */
export async function caseFaults(state: StateReader, id: string): Promise<string[]> {
  const row = await caseOf(state, id)
  if (row === undefined) return ['it is not there']
  const faults: string[] = []
  if (row.id !== id || !CASE_STATUSES.includes(row.status) || !Array.isArray(row.correlation)) return ['its row cannot be read']
  for (const status of CASE_STATUSES) {
    const listed = await state.get<string>(statusKey(status, id))
    if ((listed === id) !== (status === row.status)) faults.push(`it is ${row.status}, and ${listed === id ? '' : 'not '}listed as ${status}`)
  }
  for (const key of row.correlation) {
    const holder = await state.get<string>(openKey(key))
    if ((holder === id) !== (row.status !== 'closed')) faults.push(`it is ${row.status}, and its key ${key.namespace}=${key.value} is ${holder ?? 'nobody'}'s`)
  }
  return faults
}
