/**
 * Runs that signals ask for and that may not begin yet: there is no room, or a halt stands. They are kept by their capability in the order in which they came, so
 * that a halt of one agent holds up no other, and begun by the sweep. The key of a run says of a signal that comes again that it is kept, or has begun.
 */
import type { StateReader, StateTransaction } from 'svcdb'
import type { RunRequest } from 'svcdb/agents'
import { digest } from '../record/names.ts'

export type WaitingRun = RunRequest & { capability: string; idempotencyKey: string }

const COUNT = 'signals/count'
const ALL = 'signals/of/'
const of = (capability: string): string => `${ALL}${encodeURIComponent(capability)}/`
const nameOf = ({ idempotencyKey }: WaitingRun): string => digest('svc.waiting-signal.v1', idempotencyKey)
const idKey = (request: WaitingRun): string => `signals/id/${nameOf(request)}`

/** @param now milliseconds since the Unix epoch. @returns false when so many wait that this one is not kept. */
export async function keepWaiting(tx: StateTransaction, request: WaitingRun, now: number, max: number): Promise<boolean> {
  if ((await tx.get(idKey(request))) !== undefined) return true
  const count = (await tx.get<number>(COUNT)) ?? 0
  if (count >= max) return false
  const key = `${of(request.capability)}${String(Math.floor(now)).padStart(16, '0')}/${nameOf(request)}`
  tx.put(key, request)
  tx.put(idKey(request), key)
  tx.put(COUNT, count + 1)
  return true
}

/** Of all that wait, whatever the configuration says by now: what was kept is begun. */
export async function waitingCapabilities(state: StateReader): Promise<string[]> {
  const found: string[] = []
  for (let start = ALL; ; ) {
    const [first] = await state.list<WaitingRun>({ prefix: ALL, start, limit: 1 })
    if (first === undefined) return found
    found.push(first.value.capability)
    // What follows all keys of the capability.
    start = `${of(first.value.capability).slice(0, -1)}0`
  }
}

/** Those of a capability that have waited longest. */
export async function waitingRuns(state: StateReader, capability: string, limit: number): Promise<WaitingRun[]> {
  return (await state.list<WaitingRun>({ prefix: of(capability), limit })).map(({ value }) => value)
}

export async function countWaiting(state: StateReader): Promise<number> {
  return (await state.get<number>(COUNT)) ?? 0
}

/** It has begun, or never will. */
export async function dropWaiting(tx: StateTransaction, request: WaitingRun): Promise<void> {
  const key = await tx.get<string>(idKey(request))
  if (key === undefined) return
  tx.delete(key)
  tx.delete(idKey(request))
  tx.put(COUNT, Math.max(0, ((await tx.get<number>(COUNT)) ?? 0) - 1))
}
