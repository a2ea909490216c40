/** What has come for a wait. Of tasks and of runs that were commissioned their own rows say it; the event only wakes who waits. */
import type { StateReader } from 'svcdb'
import { type AgentEvent, TASK_DECIDED } from 'svcdb/agents'
import { endFor } from '../store/children.ts'
import { arrivedFor } from '../store/events.ts'
import type { Wait } from '../store/waits.ts'
import { decisionFor } from '../tasks/store.ts'

export async function arrivedAt(state: StateReader, { run, key, event }: Wait): Promise<AgentEvent | undefined> {
  if (event?.kind === TASK_DECIDED) return decisionFor(state, event.correlation)
  const end = event === undefined ? undefined : await endFor(state, event.kind, event.correlation)
  return end ?? arrivedFor(state, run, key)
}
