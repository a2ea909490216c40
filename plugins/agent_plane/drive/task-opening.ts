/** What a task is opened with, beside what the step asks: the journal has who asked for the run. */
import type { Label, TaskRequest } from 'svcdb/agents'
import type { Opening } from '../tasks/request.ts'
import type { RunJournal } from './run-journal.ts'

/** @param label of what the step has read. */
export function openingOf({ journal, now }: { journal: RunJournal; now(): number }, effect: string, request: TaskRequest, label: Label): Opening {
  const chain = (journal.last('IdentityBound')?.payload.chain ?? []) as { id: string }[]
  const admittedBy = journal.last('RunAdmitted')?.payload.admitted_by as string | undefined
  const requesters = [...(admittedBy === undefined ? [] : [admittedBy]), ...chain.map(({ id }) => id)]
  return { run: journal.run, effect, request, requesters, label, now: now(), ...(journal.case === undefined ? {} : { case: journal.case }) }
}
