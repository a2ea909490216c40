/**
 * The drill: a rehearsal of recovery. Every case is read, with its keys, obligations and runs; the journals of the runs are checked record by record; and the
 * sealed ones against the transparency log. The last verdict is kept.
 */
import type { StateReader, StateStore } from 'svcdb'
import { inTurns } from 'svcdb/lib/event-loop'
import { verifyLog } from '../log/verify.ts'
import { BrokenChain, verifying } from '../record/record.ts'
import { blobFaults } from '../store/blobs.ts'
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

/** Gives what is read in the body as of one moment. */
export type AtOnce = <T>(body: (state: StateReader) => Promise<T>) => Promise<T>

/** @param at milliseconds since the Unix epoch. @param pause called between cases and pages, so that others get their turn. */
export async function rehearse(state: StateReader, atOnce: AtOnce, origin: string, at: number, pause = async () => {}): Promise<Verdict> {
  const findings: string[] = []
  let cases = 0
  for (let after: string | undefined; ; ) {
    const page = await caseIds(state, after, PAGE)
    for (const id of page) {
      cases++
      const faults = await atOnce(async (one) => [...(await caseFaults(one, id)), ...(await deadlineFaults(one, id)), ...(await blobFaults(one, id))])
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
  return { at, cases, findings: findings.length, first: findings.slice(0, MAX_KEPT), notChecked: waiting, origin, logSize: size }
}

/** Rehearses, and keeps the verdict. */
export async function drill(state: StateStore, origin: string, at: number, pause?: () => Promise<void>): Promise<Verdict> {
  const verdict = await rehearse(state, (body) => state.transaction(body), origin, at, pause)
  await state.transaction((tx) => tx.put('drill', verdict))
  return verdict
}

async function runFault(state: StateReader, run: string): Promise<string | undefined> {
  const head = await headOf(state, run)
  if (head.seq === 0) return `its run "${run}" is not there`
  try {
    await inTurns(verifying(run, (await recordsOf(state, run)).slice(0, head.seq), head))
  } catch (error) {
    if (!(error instanceof BrokenChain)) throw error
    return error.message
  }
  return undefined
}
