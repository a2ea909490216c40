/** Runs that nobody drives and that should go on. Looking for them changes nothing: a run is another one's when its lease is taken. */
import type { StateReader } from 'svcdb'
import { type LeaseRow, leaseOf } from '../store/leases.ts'
import { suspendedBy, type Wait } from '../store/waits.ts'

const PAGE = 256

/** Whether a process drives a run, as far as this one can tell. */
type IsDriven = (run: string, lease: LeaseRow | undefined) => boolean

/**
 * Those of processes that ended, those that have an event or are to be stopped, and those whose wait is over. Both, running ones and suspended ones, have half
 * of the limit at least. Reads as much as it finds. @param now milliseconds since the Unix epoch. @param isTaken those that this process has taken up already.
 */
export async function dueRuns(state: StateReader, isDriven: IsDriven, now: number, limit: number, isTaken = (_: string): boolean => false): Promise<string[]> {
  const waits = await overdue(state, now, limit, isTaken)
  const left = await unheld(state, isDriven, limit - Math.min(waits.length, Math.ceil(limit / 2)), isTaken)
  return [...left, ...waits.slice(0, limit - left.length)]
}

/** Suspended runs whose wait is over by its time, the longest first. */
async function overdue(state: StateReader, now: number, limit: number, isTaken: (run: string) => boolean): Promise<string[]> {
  const found: string[] = []
  for (let last: Wait | undefined; found.length < limit; ) {
    const page = await suspendedBy(state, now, PAGE, last)
    for (const { run } of page) if (found.length < limit && !isTaken(run)) found.push(run)
    if (page.length < PAGE) break
    last = page[page.length - 1]
  }
  return found
}

/** Running ones, the newest first. */
async function unheld(state: StateReader, isDriven: IsDriven, limit: number, isTaken: (run: string) => boolean): Promise<string[]> {
  const found: string[] = []
  for (let start = 'index/running/'; found.length < limit; ) {
    const page = await state.list<string>({ prefix: 'index/running/', start, limit: PAGE })
    for (const { value: run } of page) if (found.length < limit && !isTaken(run) && !isDriven(run, await leaseOf(state, run))) found.push(run)
    if (page.length < PAGE) break
    start = `${page[page.length - 1].key}\0`
  }
  return found
}
