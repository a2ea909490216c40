/**
 * Obligations of cases: what has to be done by an instant. pending becomes warned, met, breached or cancelled; warned one of the last three, which are final.
 * What is due next is found by its instant, so a sweep looks at nothing else.
 */
import type { StateReader, StateTransaction } from 'svcdb'
import type { CaseStatus, DeadlineState, Operator } from 'svcdb/agents'
import { SvcError } from 'svcdb/lib/errors'
import { instant } from '../record/names.ts'
import type { SweptEntry } from '../store/sealed-run.ts'
import { number } from '../store/waits.ts'
import { type CaseRow, knownCase, writeStatus } from './case-store.ts'

const NAME = /^[a-z0-9][a-z0-9_.-]{0,63}$/
const MAX_OF_CASE = 1000

export interface DeadlineRow {
  case: string
  name: string
  /** Milliseconds since the Unix epoch, as is `warn`. */
  resolved: number
  calendar_digest: string
  warn?: number
  state: DeadlineState
  acknowledged?: { by: Operator; note: string; at: number }
}

const prefixOf = (id: string): string => `deadline/${id}/`
const rowKey = (id: string, name: string): string => `${prefixOf(id)}${name}`
const dueKey = ({ case: id, name, resolved, warn, state }: DeadlineRow): string =>
  `due/${number(state === 'pending' && warn !== undefined ? warn : resolved)}/${id}/${name}`
const breachKey = ({ case: id, name, resolved }: DeadlineRow): string => `breach/${number(resolved)}/${id}/${name}`
const isOpen = ({ state }: DeadlineRow): boolean => state === 'pending' || state === 'warned'

export function deadlineOf(state: StateReader, id: string, name: string): Promise<DeadlineRow | undefined> {
  return NAME.test(name) ? state.get<DeadlineRow>(rowKey(id, name)) : Promise.resolve(undefined)
}

/** Soonest first. */
export async function deadlinesOf(state: StateReader, id: string): Promise<DeadlineRow[]> {
  const rows = (await state.list<DeadlineRow>({ prefix: prefixOf(id) })).map(({ value }) => value)
  return rows.sort((a, b) => a.resolved - b.resolved || (a.name < b.name ? -1 : 1))
}

type NewDeadline = Pick<DeadlineRow, 'case' | 'name' | 'resolved' | 'calendar_digest' | 'warn'>

/** One that there is already is the answer. @throws SvcError BAD_REQUEST for a name that is none, CONFLICT on a closed case and beyond 1000 of a case. */
export async function registerDeadline(tx: StateTransaction, added: NewDeadline): Promise<DeadlineRow> {
  const { case: id, name } = added
  const refuse = (code: 'BAD_REQUEST' | 'CONFLICT', why: string) =>
    new SvcError(code, `cannot register obligation ${JSON.stringify(name.slice(0, 64))}: ${why}`)
  if (!NAME.test(name)) throw refuse('BAD_REQUEST', 'a name is 1 to 64 of a-z, 0-9, "_", "." and "-", the first no sign')
  const { status } = await knownCase(tx, id)
  const known = await tx.get<DeadlineRow>(rowKey(id, name))
  if (known !== undefined) return known
  if (status === 'closed') throw refuse('CONFLICT', `case "${id}" is closed`)
  if ((await tx.list({ prefix: prefixOf(id), limit: MAX_OF_CASE })).length >= MAX_OF_CASE) throw refuse('CONFLICT', `case "${id}" has ${MAX_OF_CASE}`)
  const { warn, ...rest } = added
  const row: DeadlineRow = { ...rest, ...(warn !== undefined && warn < added.resolved ? { warn } : {}), state: 'pending' }
  tx.put(rowKey(id, name), row)
  tx.put(dueKey(row), rowKey(id, name))
  return row
}

/** The same state again changes nothing. @returns the state before. @throws SvcError NOT_FOUND, CONFLICT when it is over. */
export async function transition(tx: StateTransaction, id: string, name: string, to: Exclude<DeadlineState, 'pending'>): Promise<DeadlineState> {
  const row = await deadlineOf(tx, id, name)
  if (row === undefined) throw new SvcError('NOT_FOUND', `cannot find obligation ${JSON.stringify(name.slice(0, 64))} of case "${id}": there is none`)
  if (row.state === to) return to
  if (!isOpen(row)) throw new SvcError('CONFLICT', `cannot have obligation "${name}" ${to}: it is ${row.state}`)
  move(tx, row, to)
  return row.state
}

function move(tx: StateTransaction, row: DeadlineRow, to: DeadlineState): void {
  const next: DeadlineRow = { ...row, state: to }
  tx.delete(dueKey(row))
  tx.put(rowKey(row.case, row.name), next)
  if (isOpen(next)) tx.put(dueKey(next), rowKey(row.case, row.name))
  else if (to === 'breached') tx.put(breachKey(next), rowKey(row.case, row.name))
}

/** @throws SvcError NOT_FOUND, CONFLICT for a case with open obligations that is to be closed. */
export async function changeStatus(tx: StateTransaction, id: string, to: CaseStatus): Promise<CaseRow> {
  if (to === 'closed') {
    const open = (await deadlinesOf(tx, id)).filter(isOpen)
    if (open.length > 0) throw new SvcError('CONFLICT', `cannot close case "${id}": its obligation "${open[0].name}" is open; meet or cancel it`)
  }
  return writeStatus(tx, id, to)
}

/** Warns of what is near, breaches what is late and escalates its case, the earliest first. @param now milliseconds since the Unix epoch. */
export async function sweepDeadlines(tx: StateTransaction, now: number, limit: number): Promise<SweptEntry[]> {
  const due = await tx.list<string>({ prefix: 'due/', end: `due/${number(now + 1)}`, limit: limit + 1 })
  const swept: SweptEntry[] = []
  for (const { value } of due.slice(0, limit)) {
    const row = (await tx.get<DeadlineRow>(value)) as DeadlineRow
    const subject = `${row.case}/${row.name}`
    const add = (action: SweptEntry['action'], detail: string, about = subject) => swept.push({ subject: about, action, detail, case: row.case })
    if (now < row.resolved) {
      move(tx, row, 'warned')
      add('deadline_warned', `it is due at ${instant(row.resolved)}`)
      continue
    }
    move(tx, row, 'breached')
    add('deadline_breached', `it was due at ${instant(row.resolved)}`)
    if ((await knownCase(tx, row.case)).status === 'escalated') continue
    await writeStatus(tx, row.case, 'escalated')
    add('case_escalated', `its obligation "${row.name}" was breached`, row.case)
  }
  if (due.length > limit)
    swept.push({ subject: 'deadlines', action: 'not_applied', detail: `${limit} were taken; there are more, and the next sweep takes them` })
  return swept
}

/** Breaches that nobody has accounted for, the longest overdue first. */
export async function unacknowledged(state: StateReader, limit: number): Promise<DeadlineRow[]> {
  const keys = await state.list<string>({ prefix: 'breach/', limit })
  const rows = await Promise.all(keys.map(({ value }) => state.get<DeadlineRow>(value)))
  return rows.filter((row) => row !== undefined)
}

/** The first who accounts for it stays on record. @throws SvcError NOT_FOUND, CONFLICT when it is not breached. */
export async function acknowledge(
  tx: StateTransaction,
  id: string,
  name: string,
  note: { by: Operator; note: string; at: number },
): Promise<{ by: Operator; recorded: boolean }> {
  await knownCase(tx, id)
  const row = await deadlineOf(tx, id, name)
  if (row === undefined) throw new SvcError('NOT_FOUND', `cannot find obligation ${JSON.stringify(name.slice(0, 64))} of case "${id}": there is none`)
  if (row.acknowledged !== undefined) return { by: row.acknowledged.by, recorded: false }
  if (row.state !== 'breached') throw new SvcError('CONFLICT', `cannot acknowledge obligation "${name}": it is ${row.state}, and not breached`)
  tx.delete(breachKey(row))
  tx.put(rowKey(id, name), { ...row, acknowledged: note } satisfies DeadlineRow)
  return { by: note.by, recorded: true }
}

/** What is wrong with the rows of a case's obligations; empty = nothing. */
export async function deadlineFaults(state: StateReader, id: string): Promise<string[]> {
  const faults: string[] = []
  for (const row of await deadlinesOf(state, id)) {
    const isListed = async (key: string) => (await state.get(key)) === rowKey(id, row.name)
    if ((await isListed(dueKey(row))) !== isOpen(row))
      faults.push(`its obligation "${row.name}" is ${row.state}, and ${isOpen(row) ? 'not ' : ''}listed as due`)
    const isBreach = row.state === 'breached' && row.acknowledged === undefined
    if ((await isListed(breachKey(row))) !== isBreach)
      faults.push(`its obligation "${row.name}" is ${row.state}, and ${isBreach ? 'not ' : ''}listed as a breach`)
  }
  return faults
}
