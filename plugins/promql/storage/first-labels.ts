/** Label sets of a metric's series in the order of the API: in turns, and never many more of them than are wanted. */
import type { Pacer } from '../eval/context.ts'
import { compareLabels, sortLabels } from '../http/series-order.ts'
import type { LabelSets, Labels } from '../labels.ts'

/** Label sets that are made, sorted or merged between two looks at the clock: a millisecond or two. */
const RUN = 1024
/** What a run counts to the pacer, which looks at the clock when it has so many. */
const RUN_CELLS = 4096

/** @param most of them, the first by order. @returns each once. @throws QueryStoppedError. */
export async function firstLabels(sets: LabelSets, most: number, pacer: Pacer): Promise<readonly Labels[]> {
  const runs: Labels[][] = []
  for (let from = 0; from < sets.length; from += RUN) {
    const run: Labels[] = []
    for (let i = from; i < Math.min(from + RUN, sets.length); i++) run.push(sets.at(i))
    sortLabels(run)
    let merged = distinct(run).slice(0, most)
    if (pacer.due(RUN_CELLS)) await pacer.pause()
    // The longer ones first, so that each set is merged a few times only.
    for (let last = runs.at(-1); last !== undefined && last.length <= merged.length; last = runs.at(-1)) {
      runs.pop()
      merged = await merge(last, merged, most, pacer)
    }
    runs.push(merged)
  }
  let all = runs.pop() ?? []
  for (let run = runs.pop(); run !== undefined; run = runs.pop()) all = await merge(run, all, most, pacer)
  return all
}

function distinct(sorted: Labels[]): Labels[] {
  return sorted.filter((labels, i) => i === 0 || compareLabels(sorted[i - 1], labels) !== 0)
}

async function merge(a: readonly Labels[], b: readonly Labels[], most: number, pacer: Pacer): Promise<Labels[]> {
  const out: Labels[] = []
  let i = 0
  let j = 0
  while (out.length < most && (i < a.length || j < b.length)) {
    const order = i === a.length ? 1 : j === b.length ? -1 : compareLabels(a[i], b[j])
    if (order === 0) j++
    out.push(order <= 0 ? a[i++] : b[j++])
    if (out.length % RUN === 0 && pacer.due(RUN_CELLS)) await pacer.pause()
  }
  return out
}
