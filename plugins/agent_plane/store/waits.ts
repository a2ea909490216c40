/** What runs wait for, by run; and suspended runs in the order in which their waits are over. */
import type { StateReader, StateTransaction } from 'svcdb'
import type { CorrelationKey } from 'svcdb/agents'

/** What one step of one run waits for. */
export interface Wait {
  run: string
  /** Of the wait: an effect's. */
  key: string
  /** Milliseconds since the Unix epoch: then it is over. */
  until: number
  /** Absent = it waits for its time alone. */
  event?: { kind: string; correlation: CorrelationKey[] }
  /** An event with one of the keys is enough. */
  any?: boolean
}

const ORDER = 'waiting/'

/** Of an instant, as it is written in keys. @param ms since the Unix epoch. */
export const number = (ms: number): string => String(Math.max(0, Math.floor(ms))).padStart(16, '0')
const ownKey = ({ run, key }: Pick<Wait, 'run' | 'key'>): string => `wait/${run}/${key}`
const orderKey = ({ run, until }: Wait): string => `${ORDER}${number(until)}/${run}`

export function waitOf(state: StateReader, run: string, key: string): Promise<Wait | undefined> {
  return state.get<Wait>(ownKey({ run, key }))
}

export async function waitsOf(state: StateReader, run: string): Promise<Wait[]> {
  return (await state.list<Wait>({ prefix: `wait/${run}/` })).map(({ value }) => value)
}

export function putWait(tx: StateTransaction, wait: Wait): void {
  tx.put(ownKey(wait), wait)
}

export function deleteWait(tx: StateTransaction, wait: Wait): void {
  tx.delete(ownKey(wait))
}

/** The wait of a run that is over first: while the run is suspended its waits stay as they are, so it is found by it. */
async function soonest(tx: StateTransaction, run: string): Promise<Wait | undefined> {
  const waits = await waitsOf(tx, run)
  return waits.reduce<Wait | undefined>((first, wait) => (first === undefined || wait.until < first.until ? wait : first), undefined)
}

/** In the transaction that suspends the run. */
export async function enlist(tx: StateTransaction, run: string): Promise<void> {
  const wait = await soonest(tx, run)
  if (wait !== undefined) tx.put(orderKey(wait), wait)
}

/** In the transaction in which the run goes on, before one of its waits ends. */
export async function strike(tx: StateTransaction, run: string): Promise<void> {
  const wait = await soonest(tx, run)
  if (wait !== undefined) tx.delete(orderKey(wait))
}

/** Of each suspended run the wait that is over first, the soonest first. @param by milliseconds since the Unix epoch: those alone that are over then. */
export async function suspendedBy(state: StateReader, by: number, limit: number, after?: Wait): Promise<Wait[]> {
  const start = after === undefined ? {} : { start: `${orderKey(after)}\0` }
  return (await state.list<Wait>({ prefix: ORDER, ...start, end: `${ORDER}${number(by + 1)}`, limit })).map(({ value }) => value)
}
