/**
 * For the stress test of snapshots: rows that say of themselves what they should be, and the thread that looks at them while they are written.
 * Row n: series n modulo SERIES, time and value by n, and a second value that every third row lacks from ROWS_WHOLE on.
 */
import { parentPort, workerData } from 'node:worker_threads'
import type { ColumnView } from '../memtable/chunk-view.ts'
import { memtablePositions } from '../memtable/memtable-source.ts'
import { ROW_BITS } from '../threads/memtable-layout.ts'
import type { StateEvent } from '../threads/messages.ts'
import { SnapshotPin } from '../threads/snapshot-pins.ts'
import { type MemtablePart, WorkerState } from '../threads/state.ts'

export const SERIES = 13
export const BATCH_ROWS = 40
export const ROWS_WHOLE = 700
export const TABLE = 1000
/** Slot of the shared header with the number of snapshots that were looked at. */
export const TAKEN = 15

const STEP = 10n
const LATE_EVERY = 11
const LATE_BY = 170n

export function timeOfRow(n: number): bigint {
  return BigInt(n) * STEP - (n % LATE_EVERY === 0 ? LATE_BY : 0n)
}

export const lacksSecond = (n: number): boolean => n >= ROWS_WHOLE && n % 3 === 0

/** What the checking thread answers when it is to stop. */
export interface Findings {
  snapshots: number
  rows: number
  fault: string | undefined
}

const numbersOf = (view: ColumnView | undefined): ArrayLike<number> | undefined => view?.ints ?? view?.f64
const position = (chunk: number, row: number): number => (chunk << ROW_BITS) | row

/** @throws Error naming the first row or word that is not as it should be. */
export function check(part: MemtablePart): void {
  const { chunks, counts, rows } = part
  if (rows % BATCH_ROWS !== 0) throw new Error(`${rows} rows are no whole batches`)
  const first = numbersOf(chunks[0].columns.get(0))?.[0] ?? Number.NaN
  const expected = new Map<number, number[]>(Array.from({ length: SERIES }, (_, s) => [s, []]))
  let [min, max] = [timeOfRow(first), timeOfRow(first)]
  let lateness = 0n
  let n = first
  for (const [c, chunk] of chunks.entries()) {
    const [value, second] = [numbersOf(chunk.columns.get(0)), chunk.columns.get(1)]
    if (value === undefined || second === undefined) throw new Error('a column is missing')
    const nulls = chunk.hasNulls(second)
    const seconds = numbersOf(second)
    for (let row = 0; row < counts[c]; row++, n++) {
      const time = timeOfRow(n)
      if (value[row] !== n || chunk.series[row] !== n % SERIES || chunk.timeAt(row) !== time) throw new Error(`row ${n} is another one`)
      const has = !nulls || (second.validity[row >> 3] & (1 << (row & 7))) !== 0
      if (has === lacksSecond(n) || (has && seconds?.[row] !== -n)) throw new Error(`row ${n} has ${has ? seconds?.[row] : 'no second value'}`)
      expected.get(n % SERIES)?.push(position(c, row))
      if (time < min) min = time
      if (time > max) max = time
      const before = newestBefore(n)
      if (before !== undefined && before - time > lateness) lateness = before - time
    }
  }
  if (part.minTime !== min || part.maxTime !== max) throw new Error(`the summary says ${part.minTime} to ${part.maxTime}, the rows ${min} to ${max}`)
  if (part.lateness !== lateness) throw new Error(`the summary says ${part.lateness} of lateness, the rows ${lateness}`)
  for (const [series, positions] of expected) {
    const found = [...memtablePositions({ part, lo: -(2n ** 63n), hi: 2n ** 63n - 1n, linked: true }, Int32Array.of(series))].sort((a, b) => a - b)
    if (String(found) !== String(positions)) throw new Error(`the links of series ${series} lead to ${found.length} of ${positions.length} rows`)
  }
}

/** Of the series of row n, among the rows before it. */
function newestBefore(n: number): bigint | undefined {
  let newest: bigint | undefined
  for (let before = n - SERIES, looked = 0; before >= 0 && looked < 3; before -= SERIES, looked++) {
    const time = timeOfRow(before)
    if (newest === undefined || time > newest) newest = time
  }
  return newest
}

function watch(shared: Int32Array): void {
  const state = new WorkerState(shared)
  const findings: Findings = { snapshots: 0, rows: 0, fault: undefined }
  let stopped = false
  parentPort?.on('message', (message: StateEvent | 'stop') => {
    if (message === 'stop') stopped = true
    else state.apply(message)
  })
  const turn = (): void => {
    try {
      for (const part of state.snapshotNow()?.table(TABLE).memtables ?? []) {
        check(part)
        findings.rows += part.rows
        findings.snapshots++
        Atomics.store(shared, TAKEN, findings.snapshots)
      }
    } catch (error) {
      findings.fault ??= (error as Error).message
      Atomics.add(shared, TAKEN, 1 << 20) // enough
    }
    if (!stopped) return void setImmediate(turn)
    parentPort?.postMessage(findings)
    parentPort?.close()
  }
  turn()
}

/** What a thread that holds snapshots is given. */
export interface Holder {
  /** The shared header. */
  held: Int32Array
  pins: Int32Array
  /** Memtable n begins with row n times this. */
  memtableRows: number
}

/** Holds snapshots of jobs, each as many turns as its number says, looks at them in each, and says when a job has ended. */
function hold({ held: shared, pins, memtableRows }: Holder): void {
  const state = new WorkerState(shared)
  const findings: Findings = { snapshots: 0, rows: 0, fault: undefined }
  const jobs = new Map<number, { pin: SnapshotPin; parts: MemtablePart[] | undefined; turns: number }>()
  let stopped = false
  parentPort?.on('message', (message: StateEvent | 'stop' | { job: number; slot: number }) => {
    if (message === 'stop') stopped = true
    else if ('slot' in message) jobs.set(message.job, { pin: new SnapshotPin(pins, message.slot), parts: undefined, turns: (message.job * 7) % 60 })
    else state.apply(message)
  })
  const look = (part: MemtablePart): void => {
    if (numbersOf(part.chunks[0].columns.get(0))?.[0] !== part.memtable.id * memtableRows)
      throw new Error(`memtable ${part.memtable.id} has rows of another one`)
    check(part)
    findings.rows += part.rows
  }
  const turn = (): void => {
    try {
      for (const [id, job] of jobs) {
        job.parts ??= state.snapshotNow(job.pin)?.table(TABLE).memtables
        job.parts?.forEach(look)
        if (job.parts === undefined || job.turns-- > 0) continue
        jobs.delete(id)
        job.pin.release()
        Atomics.store(shared, TAKEN, ++findings.snapshots)
        parentPort?.postMessage(id)
      }
    } catch (error) {
      findings.fault ??= (error as Error).message
      Atomics.add(shared, TAKEN, 1 << 20) // enough
      stopped = true
    }
    if (!stopped) return void setImmediate(turn)
    parentPort?.postMessage(findings)
    parentPort?.close()
  }
  turn()
}

if (workerData?.held !== undefined) hold(workerData as Holder)
if (workerData?.stress !== undefined) watch(workerData.stress as Int32Array)
