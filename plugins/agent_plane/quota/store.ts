/**
 * What runs of a tenant hold and spend. A slot is a row that is there as long as a run holds the lease of a pass, put and taken in the transactions that take
 * and give back that lease; slots are counted by listing them, so that their number cannot differ from what there is. What an effect may spend is reserved in
 * the transaction that announces it, and settled in the one that keeps its end; a reservation is a row as well, beside the totals of its period.
 */
import type { StateReader, StateTransaction } from 'svcdb'
import type { AgentRef, Spend } from 'svcdb/agents'
import { digest } from '../record/names.ts'
import { leaseOf, releaseLease } from '../store/leases.ts'
import type { PeriodLength } from './period.ts'

/** 0 = no bound. */
export interface QuotaLimits {
  maxConcurrentRuns: number
  maxTokens: number
  maxMinorUnits: number
  period: PeriodLength
}

export const UNBOUNDED: QuotaLimits = { maxConcurrentRuns: 0, maxTokens: 0, maxMinorUnits: 0, period: 'month' }

/** For whom a run acts, and by what declaration: kept from its admission on. */
export interface Acting {
  agent?: AgentRef
  /** Who asked for it, and all on the chain: the principal for whom it acts first. */
  subjects: string[]
}

export interface Slot {
  run: string
  /** Milliseconds since the Unix epoch. */
  since: number
}

/** What a period has come to. `reserved` is what effects that are under way may spend at most. */
export interface PeriodRow {
  settled: Spent
  reserved: Spent
}

interface Spent {
  tokens: number
  minor_units: number
}

export interface Reservation extends Spent {
  period: string
}

export const NOTHING: Spent = { tokens: 0, minor_units: 0 }

const slotKey = (run: string): string => `quota/slot/${run}`
const actingKey = (run: string): string => `quota/acting/${run}`
const periodKey = (period: string): string => `quota/period/${period}`
const reservedPrefix = (run: string): string => `quota/reserved/${run}/`
const ratePrefix = (grant: string): string => `quota/rate/${digest('svc.grant.v1', grant)}/`
const windowKey = (grant: string): string => `quota/rate_window/${digest('svc.grant.v1', grant)}`
const time = (ms: number): string => String(Math.max(0, Math.floor(ms))).padStart(16, '0')

export function whole(spend: Spend | undefined): Spent {
  return { tokens: spend?.tokens ?? 0, minor_units: spend?.minor_units ?? 0 }
}

export function sum(a: Spent, b: Spent, sign: 1 | -1 = 1): Spent {
  return { tokens: a.tokens + sign * b.tokens, minor_units: a.minor_units + sign * b.minor_units }
}

export function keepActing(tx: StateTransaction, run: string, acting: Acting): void {
  tx.put(actingKey(run), acting)
}

export async function actingOf(state: StateReader, run: string): Promise<Acting> {
  return (await state.get<Acting>(actingKey(run))) ?? { subjects: [] }
}

/** With the lease of a pass. Whether there is room is asked before, at an admission alone: what was admitted goes on. */
export function takeSlot(tx: StateTransaction, run: string, now: number): void {
  tx.put(slotKey(run), { run, since: now } satisfies Slot)
}

/** With the lease. */
export function giveSlotBack(tx: StateTransaction, run: string): void {
  tx.delete(slotKey(run))
}

/** Slot and lease, of a pass that is over or that never began; nothing where another process has them now. */
export async function handBack(tx: StateTransaction, run: string, epoch: number): Promise<void> {
  if ((await leaseOf(tx, run))?.epoch !== epoch) return
  giveSlotBack(tx, run)
  await releaseLease(tx, run, epoch)
}

export async function hasSlot(state: StateReader, run: string): Promise<boolean> {
  return (await state.get(slotKey(run))) !== undefined
}

/** In the order of runs. */
export async function slots(state: StateReader, limit: number): Promise<Slot[]> {
  return (await state.list<Slot>({ prefix: 'quota/slot/', limit })).map(({ value }) => value)
}

export async function periodRow(state: StateReader, period: string): Promise<PeriodRow> {
  return (await state.get<PeriodRow>(periodKey(period))) ?? { settled: NOTHING, reserved: NOTHING }
}

/** Before the effect is done, with its announcement. */
export async function reserve(tx: StateTransaction, run: string, effectKey: string, period: string, spend: Spend): Promise<void> {
  const row = await periodRow(tx, period)
  tx.put(periodKey(period), { ...row, reserved: sum(row.reserved, whole(spend)) } satisfies PeriodRow)
  tx.put(`${reservedPrefix(run)}${effectKey}`, { period, ...whole(spend) } satisfies Reservation)
}

export function reservationOf(state: StateReader, run: string, effectKey: string): Promise<Reservation | undefined> {
  return state.get<Reservation>(`${reservedPrefix(run)}${effectKey}`)
}

/** With the effect's end. @param period where nothing was reserved. */
export async function settle(tx: StateTransaction, run: string, effectKey: string, period: string, spend: Spent): Promise<void> {
  const reserved = await reservationOf(tx, run, effectKey)
  if (reserved === undefined && spend.tokens === 0 && spend.minor_units === 0) return
  const of = reserved?.period ?? period
  const row = await periodRow(tx, of)
  tx.put(periodKey(of), {
    settled: sum(row.settled, spend),
    reserved: reserved === undefined ? row.reserved : sum(row.reserved, reserved, -1),
  } satisfies PeriodRow)
  if (reserved !== undefined) tx.delete(`${reservedPrefix(run)}${effectKey}`)
}

/** What nobody will say any more how it ended is counted as spent. @returns what that is. */
export async function settleAll(tx: StateTransaction, run: string): Promise<Spent> {
  let all = NOTHING
  for (const { key, value } of await tx.list<Reservation>({ prefix: reservedPrefix(run) })) {
    await settle(tx, run, key.slice(reservedPrefix(run).length), value.period, whole(value))
    all = sum(all, value)
  }
  return all
}

/**
 * Uses of a grant in a window that ends now, up to the limit. Those are taken out on the way that the widest window does not have that was ever asked for: the
 * manifests of several agents, and several nodes, may look at one grant through windows of their own.
 */
export async function usesOf(tx: StateTransaction, grant: string, windowMs: number, now: number, limit: number): Promise<number> {
  const prefix = ratePrefix(grant)
  const known = (await tx.get<number>(windowKey(grant))) ?? 0
  const widest = Math.max(windowMs, known)
  if (widest > known) tx.put(windowKey(grant), widest)
  for (const { key } of await tx.list({ prefix, end: `${prefix}${time(now - widest + 1)}`, limit: 100 })) tx.delete(key)
  // What lies further ahead than a window was noted by a wrong clock.
  return (await tx.list({ prefix, start: `${prefix}${time(now - windowMs + 1)}`, end: `${prefix}${time(now + windowMs)}`, limit })).length
}

/** With the announcement of the effect. */
export function use(tx: StateTransaction, grant: string, run: string, effectKey: string, now: number): void {
  tx.put(`${ratePrefix(grant)}${time(now)}/${run}/${effectKey}`, null)
}
