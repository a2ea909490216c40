/** Runs that others have commissioned: whoever did is told when they are over, in the transaction that concludes them. */
import type { StateReader, StateTransaction } from 'svcdb'
import type { Json } from 'svcdb/agents'
import { deliver } from './events.ts'
import type { Status } from './runs.ts'

/** Kind of the event that says so, and the namespace of its key. */
export const RUN_CONCLUDED = 'svc.run.concluded'
export const RUN_KEY = 'svc.run'

const TOLD: ReadonlySet<Status> = new Set<Status>(['succeeded', 'failed', 'cancelled', 'abandoned'])

export interface ChildEnd {
  status: Status
  output?: Json
  reason?: string
}

export function setParent(tx: StateTransaction, run: string, parent: string): void {
  tx.put(`parent/${run}`, parent)
}

export function parentOf(state: StateReader, run: string): Promise<string | undefined> {
  return state.get<string>(`parent/${run}`)
}

/** The first end counts. @param now milliseconds since the Unix epoch. @returns the run that goes on by it. */
export async function tellParent(tx: StateTransaction, run: string, end: ChildEnd, now: number): Promise<string | undefined> {
  if (!TOLD.has(end.status) || (await parentOf(tx, run)) === undefined) return undefined
  const correlation = [{ namespace: RUN_KEY, value: run }]
  const payload: Json = { run, ...end }
  const answer = await deliver(tx, { id: run, source: RUN_KEY, kind: RUN_CONCLUDED, correlation, payload }, now)
  return answer.delivery === 'resumed' ? answer.run : undefined
}
