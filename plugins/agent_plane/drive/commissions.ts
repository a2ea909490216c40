/**
 * Runs that others were commissioned with, when the one that did is undone: they are stopped and undo what they did, and are waited for before anything else of
 * their step is undone.
 */
import type { Operator, StepContext } from 'svcdb/agents'
import type { NewRecord } from '../record/record.ts'
import { shortened } from '../record/text.ts'
import { parentOf, RUN_KEY, RUN_OVER } from '../store/children.ts'
import { cancellationOf, FINAL, requestCancel, runOfKey, setStatus, statusOf } from '../store/runs.ts'
import { DECLARED } from './attempt.ts'
import { type Attempt, COMMISSION, type RunJournal } from './run-journal.ts'

const MAX_REASON = 4096
/** A hundred years: it ends by itself, or a person ends it. */
const FOREVER_MS = 3_155_760_000_000

/** Those that were announced without an end: whether there is such a run the store says, and no other process can begin it any more. */
export async function settleCommissions(journal: RunJournal): Promise<void> {
  const open = journal.undecided().filter(({ kind }) => kind === COMMISSION)
  if (open.length === 0) return
  await journal.append(async (tx) => {
    const records: NewRecord[] = []
    for (const { effect, step, phase } of open) {
      const { started } = journal.attempt(effect) as Attempt
      const { key = '' } = started.payload.recovery as { key?: string }
      const output = await runOfKey(tx, key)
      const said = output === undefined ? { disposition: 'did_not_happen' } : { disposition: 'landed', output, declared: DECLARED }
      const place = { step, ...(phase === 'forward' ? {} : { phase }) }
      records.push({ ...place, effectKey: effect, kind: 'EffectReconciled', payload: { ...said, detail: 'store' } })
    }
    return records
  })
}

/** Has all stop that are not over; one that is quarantined stops when somebody reopens it. @returns those that go on, to be undone. */
export async function recall(journal: RunJournal, outcome: 'cancelled' | 'failed', why: string): Promise<string[]> {
  const { run } = journal
  const children = journal.unended()
  if (children.length === 0) return []
  const by = (journal.last('RunCancelled')?.payload.actor as Operator | undefined) ?? { actor: `svc:run/${run}`, basis: 'asserted' }
  const reason = shortened(`the run ${run} that has commissioned it ${outcome === 'cancelled' ? 'was cancelled' : 'has failed'}: ${why}`, MAX_REASON)
  let stopped: string[] = []
  await journal.append(async (tx) => {
    stopped = []
    for (const child of children) {
      const status = (await parentOf(tx, child)) === run ? await statusOf(tx, child) : undefined
      if (status === undefined || FINAL.has(status) || (await cancellationOf(tx, child)) !== undefined) continue
      await requestCancel(tx, child, { by, reason })
      if (status === 'quarantined') continue
      await setStatus(tx, child, 'running')
      stopped.push(child)
    }
    return []
  })
  return stopped
}

/** In the phase in which a step is undone. */
export async function awaitEnds(context: StepContext, runs: readonly string[]): Promise<void> {
  for (const value of runs) await context.awaitEvent({ kind: RUN_OVER, correlation: [{ namespace: RUN_KEY, value }], withinMs: FOREVER_MS })
}
