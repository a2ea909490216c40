/** The log held against the journals: a tree made anew of its leaves, and each leaf against the run that it is of. */
import type { StateReader } from 'svcdb'
import { headOf } from '../store/journal.ts'
import { FINAL } from '../store/runs.ts'
import { checkpointOf, isAt, isEntered, isWaiting, leaves } from './log.ts'
import { extended, leafHash, rootOf } from './merkle.ts'

const PAGE = 500

interface LogReport {
  size: number
  /** Runs that are concluded for good and not in the log yet. */
  waiting: number
  /** Sentences; empty = sound. */
  faults: string[]
}

/** What is sealed meanwhile is not looked at. @param pause called between pages. */
export async function verifyLog(state: StateReader, pause: () => Promise<void> = async () => {}): Promise<LogReport> {
  const { size, root } = await checkpointOf(state, '')
  const faults: string[] = []
  let frontier: string[] = []
  let index = 0
  while (index < size) {
    const page = await leaves(state, index, Math.min(PAGE, size - index))
    if (page.length === 0) break
    for (const { run, hash } of page) {
      frontier = extended(frontier, index, leafHash(hash))
      const head = await headOf(state, run)
      if (head.seq === 0) faults.push(`run "${run}" is in the log, and is not there`)
      else if (head.hash !== hash) faults.push(`run "${run}" is not as the log has it`)
      if (!(await isAt(state, run, index))) faults.push(`entry ${index} of the log, "${run}", is not where it is said to be`)
      index++
    }
    await pause()
  }
  if (index !== size) faults.push(`the log has ${index} entries, and its size is ${size}`)
  else if (rootOf(frontier) !== root) faults.push(`the ${size} entries of the log do not come to its root`)
  return { size, waiting: await missing(state, faults, pause), faults }
}

/** Runs that are concluded for good are in the log, or wait for it. */
async function missing(state: StateReader, faults: string[], pause: () => Promise<void>): Promise<number> {
  let waiting = 0
  for (const status of FINAL) {
    for (let start = `index/${status}/`; ; ) {
      const page = await state.list<string>({ prefix: `index/${status}/`, start, limit: PAGE })
      for (const { value: run } of page) {
        // In this order: it may be entered in between.
        if (await isWaiting(state, run)) waiting++
        else if (!(await isEntered(state, run))) faults.push(`run "${run}" is ${status}, and is not in the log`)
      }
      await pause()
      if (page.length < PAGE) break
      start = `${page[page.length - 1].key}\0`
    }
  }
  return waiting
}
