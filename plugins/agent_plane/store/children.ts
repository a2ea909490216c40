/**
 * Runs that others have commissioned. How one ended is a row of its own, written in the transaction that concludes it; an event only wakes who waits, so nothing of
 * it ages or is lost.
 */
import type { StateReader, StateTransaction } from 'svcdb'
import { type AgentEvent, type CorrelationKey, type Json, OWN } from 'svcdb/agents'
import { announce } from './events.ts'
import { Fenced, leaseOf } from './leases.ts'
import { FINAL, type Status, statusOf } from './runs.ts'

/** Kind of the event that says how it ended. */
export const RUN_CONCLUDED = 'svc.run.concluded'
/** Kind of the event that says that nothing can change it any more. */
export const RUN_OVER = 'svc.run.over'
/** Namespace of the key of both: the value is the run. */
export const RUN_KEY = 'svc.run'

const TOLD: ReadonlySet<Status> = new Set<Status>(['succeeded', 'failed', 'cancelled', 'abandoned'])

export interface ChildEnd {
  status: Status
  output?: Json
  reason?: string
}

/** A pass over the run that commissions. */
export interface Parent {
  run: string
  /** Of its lease. */
  epoch: number
}

const parentKey = (run: string): string => `parent/${run}`
const endKey = (run: string): string => `child_end/${run}`

/** @throws Fenced when the pass has lost its lease: whoever has it now may have stopped all that was commissioned. */
export async function setParent(tx: StateTransaction, run: string, { run: parent, epoch }: Parent): Promise<void> {
  if ((await leaseOf(tx, parent))?.epoch !== epoch) throw new Fenced(parent, epoch)
  tx.put(parentKey(run), parent)
}

export function parentOf(state: StateReader, run: string): Promise<string | undefined> {
  return state.get<string>(parentKey(run))
}

/** The first end counts. @returns the runs that go on by it. */
export async function tellParent(tx: StateTransaction, run: string, end: ChildEnd): Promise<string[]> {
  if ((await parentOf(tx, run)) === undefined) return []
  const isFirst = TOLD.has(end.status) && (await tx.get(endKey(run))) === undefined
  if (isFirst) tx.put(endKey(run), end)
  return [...(isFirst ? await announce(tx, concluded(run, end)) : []), ...(FINAL.has(end.status) ? await announce(tx, over(run, end.status)) : [])]
}

function concluded(run: string, end: ChildEnd): AgentEvent {
  return { id: run, source: RUN_KEY, kind: RUN_CONCLUDED, correlation: [{ namespace: RUN_KEY, value: run }], payload: { run, ...end } }
}

function over(run: string, status: Status): AgentEvent {
  return { id: run, source: RUN_KEY, kind: RUN_OVER, correlation: [{ namespace: RUN_KEY, value: run }], payload: { run, status }, label: OWN }
}

/** What a wait gets that names one run; undefined while there is nothing. */
export async function endFor(state: StateReader, kind: string, [named, ...others]: readonly CorrelationKey[]): Promise<AgentEvent | undefined> {
  if (named?.namespace !== RUN_KEY || others.length > 0) return undefined
  const { value: run } = named
  if (kind === RUN_CONCLUDED) {
    const end = await state.get<ChildEnd>(endKey(run))
    return end === undefined ? undefined : concluded(run, end)
  }
  const status = kind === RUN_OVER ? await statusOf(state, run) : undefined
  return status !== undefined && FINAL.has(status) ? over(run, status) : undefined
}
