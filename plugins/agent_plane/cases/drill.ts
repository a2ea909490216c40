/**
 * The drill: a rehearsal of recovery. Every case is read, with its keys, obligations and runs; the journals of the runs are checked record by record; and the
 * sealed ones against the transparency log. The last verdict is kept.
 */
import type { StateReader, StateStore } from 'svcdb'
import { verifyLog } from '../log/verify.ts'
import { BrokenChain, verified } from '../record/record.ts'
import { headOf, recordsOf } from '../store/journal.ts'
import { caseFaults, caseIds, runsAbout } from './case-store.ts'
import { deadlineFaults } from './obligations.ts'

const PAGE = 200
const MAX_KEPT = 100

export interface Verdict {
  /** Milliseconds since the Unix epoch. */
  at: number
  cases: number
  findings: number
  /** The first hundred, sentences. */
  first: string[]
  /** Runs that are concluded and not in the log yet. */
  notChecked: number
  origin: string
  logSize: number
}

export function lastVerdict(state: StateReader): Promise<Verdict | undefined> {
  return state.get<Verdict>('drill')
}

/** @param pause called between cases and pages, so that others get their turn. */
export async function drill(state: StateStore, origin: string, now: () => number, pause: () => Promise<void> = async () => {}): Promise<Verdict> {
  const at = now()
  const findings: string[] = []
  let cases = 0
  for (let after: string | undefined; ; ) {
    const page = await caseIds(state, after, PAGE)
    for (const id of page) {
      cases++
      // Of one moment: a case that is written meanwhile is no finding.
      const faults = await state.transaction(async (tx) => [...(await caseFaults(tx, id)), ...(await deadlineFaults(tx, id))])
      for (const fault of faults) findings.push(`case "${id}": ${fault}`)
      for (const run of await runsAbout(state, id, Number.POSITIVE_INFINITY)) {
        const fault = await runFault(state, run)
        if (fault !== undefined) findings.push(`case "${id}": ${fault}`)
      }
      await pause()
    }
    if (page.length < PAGE) break
    after = page[page.length - 1]
  }
  const { size, waiting, faults } = await verifyLog(state, pause)
  findings.push(...faults)
  const verdict: Verdict = { at, cases, findings: findings.length, first: findings.slice(0, MAX_KEPT), notChecked: waiting, origin, logSize: size }
  await state.transaction((tx) => tx.put('drill', verdict))
  return verdict
}

async function runFault(state: StateReader, run: string): Promise<string | undefined> {
  const head = await headOf(state, run)
  if (head.seq === 0) return `its run "${run}" is not there`
  try {
    verified(run, (await recordsOf(state, run)).slice(0, head.seq), head)
  } catch (error) {
    if (!(error instanceof BrokenChain)) throw error
    return error.message
  }
  return undefined
}
