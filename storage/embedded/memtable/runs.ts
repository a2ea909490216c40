/** Lists of runs of rows: of each what it belongs to (a position of a series, a cell of groups and buckets), its first row, the row after its last. */
import type { IntList } from './int-list.ts'

/** Numbers of a run. */
export const RUN = 3

export function pushRun(runs: IntList, of: number, from: number, to: number): void {
  runs.push(of)
  runs.push(from)
  runs.push(to)
}

export function copyRuns({ values, length }: IntList, out: IntList): void {
  out.length = 0
  out.room(length)
  out.values.set(values.subarray(0, length))
  out.length = length
}
