/** Puts samples in order where sources overlap, and leaves one of each millisecond. */
import type { SampleRows } from 'svcdb/lib/columns'

/** Late samples are mostly few: they are moved to their positions one by one, unless it takes more moves than this a sample. */
const MOVES = 16

/** What orders samples of a millisecond: nanoseconds beyond it, then the block they are of, older ones first, then their position. */
interface Ranks {
  rests: Int32Array | undefined
  ages: Int32Array
}

/**
 * The same with each series' samples in ascending time; of those of a millisecond the last, of equal times the one written last.
 * @param disordered the series, ascending, that need it.
 */
export function inOrder(rows: SampleRows, ranks: Ranks, disordered: readonly number[]): SampleRows {
  const { starts, times } = rows
  const order = new Int32Array(times.length)
  for (let i = 0; i < order.length; i++) order[i] = i
  const kept = new Int32Array(starts.length)
  let n = 0
  let next = 0
  for (let s = 0; s + 1 < starts.length; s++) {
    const [from, to] = [starts[s], starts[s + 1]]
    if (disordered[next] === s) {
      next++
      sort(order, from, to, times, ranks)
      for (let i = from; i < to; i++) if (i + 1 === to || times[order[i + 1]] !== times[order[i]]) order[n++] = order[i]
    } else for (let i = from; i < to; i++) order[n++] = order[i]
    kept[s + 1] = n
  }
  return picked(rows, order.subarray(0, n), kept)
}

/** Sorts order[from, to) by time, then as ranks say. */
function sort(order: Int32Array, from: number, to: number, times: Float64Array, { rests, ages }: Ranks): void {
  const after = (a: number, b: number): boolean => {
    if (times[a] !== times[b]) return times[a] > times[b]
    if (rests !== undefined && rests[a] !== rests[b]) return rests[a] > rests[b]
    return ages[a] > ages[b]
  }
  let moves = (to - from) * MOVES
  for (let i = from + 1; i < to; i++) {
    const position = order[i]
    let j = i
    while (j > from && after(order[j - 1], position)) {
      order[j] = order[j - 1]
      j--
    }
    order[j] = position
    moves -= i - j
    if (moves < 0) {
      order.subarray(from, to).sort((a, b) => times[a] - times[b] || (rests === undefined ? 0 : rests[a] - rests[b]) || ages[a] - ages[b] || a - b)
      return
    }
  }
}

function picked({ first, times, values, kinds, histograms }: SampleRows, order: Int32Array, starts: Int32Array): SampleRows {
  const n = order.length
  const out: SampleRows = { first, starts, times: new Float64Array(n), values: new Float64Array(n) }
  for (let i = 0; i < n; i++) {
    out.times[i] = times[order[i]]
    out.values[i] = values[order[i]]
  }
  if (kinds !== undefined) {
    out.kinds = new Uint8Array(n)
    for (let i = 0; i < n; i++) out.kinds[i] = kinds[order[i]]
  }
  if (histograms !== undefined) out.histograms = Array.from(order, (position) => histograms[position])
  return out
}
