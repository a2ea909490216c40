/** Lists of runs of rows: of each what it belongs to (a position of a series, a cell of groups and buckets), its first row, the row after its last. */
import { IntList } from './int-list.ts'

/** Numbers of a run. */
export const RUN = 3

export function pushRun(runs: IntList, of: number, from: number, to: number): void {
  runs.push(of)
  runs.push(from)
  runs.push(to)
}

/** The same rows in lists of `most` rows, the last with fewer; a run may be cut. */
export function* partsOfRuns(runs: Int32Array, most: number): Generator<Int32Array> {
  const size = Math.max(1, Math.floor(most))
  const part = new IntList()
  let rows = 0
  for (let r = 0; r < runs.length; r += RUN) {
    for (let from = runs[r + 1]; from < runs[r + 2]; ) {
      const to = Math.min(runs[r + 2], from + size - rows)
      pushRun(part, runs[r], from, to)
      rows += to - from
      from = to
      if (rows < size) continue
      yield part.view()
      part.length = 0
      rows = 0
    }
  }
  if (rows > 0) yield part.view()
}

export function copyRuns({ values, length }: IntList, out: IntList): void {
  out.length = 0
  out.room(length)
  out.values.set(values.subarray(0, length))
  out.length = length
}

/** What lies in one of two lists, or in both. @param among runs that share no row, in an order that both lists have: each of their runs is a part of one. */
export function joinRuns(among: IntList, a: IntList, b: IntList, out: IntList): void {
  out.length = 0
  let [i, j] = [0, 0]
  for (let r = 0; r < among.length; r += RUN) {
    const [of, first, last] = [among.values[r], among.values[r + 1], among.values[r + 2]]
    let [from, to] = [-1, -1]
    for (;;) {
      const inA = i < a.length && a.values[i + 1] >= first && a.values[i + 2] <= last
      const inB = j < b.length && b.values[j + 1] >= first && b.values[j + 2] <= last
      if (!inA && !inB) break
      const fromA = inA && (!inB || a.values[i + 1] <= b.values[j + 1])
      const [start, end] = fromA ? [a.values[i + 1], a.values[i + 2]] : [b.values[j + 1], b.values[j + 2]]
      if (fromA) i += RUN
      else j += RUN
      if (from >= 0 && start <= to) to = Math.max(to, end)
      else {
        if (from >= 0) pushRun(out, of, from, to)
        from = start
        to = end
      }
    }
    if (from >= 0) pushRun(out, of, from, to)
  }
}
