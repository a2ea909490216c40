/** Which series a delete means: the matchers over the series index, each distinct value judged once. */
import type { Matcher } from '../../../kernel/storage.ts'
import { compileOne } from '../../common/matchers.ts'
import type { SeriesIndex } from '../series-index.ts'

const ABSENT = -1

/** Live series of a measurement that satisfy all matchers, ascending. */
export function selectSeries(index: SeriesIndex, measurement: number, matchers: readonly Matcher[]): Int32Array {
  const tests = matchers.map(({ tag, ...rest }) => ({ tag, test: compileOne({ tag, ...rest }), key: ABSENT, verdicts: new Map<number, boolean>() }))
  const out: number[] = []
  for (let series = 0; series < index.count; series++) {
    if (index.measurement[series] !== measurement || !index.isLive(series)) continue
    let good = true
    for (const each of tests) {
      const value = symbolOfTag(index, series, each)
      let verdict = each.verdicts.get(value)
      if (verdict === undefined) each.verdicts.set(value, (verdict = each.test(value === ABSENT ? '' : index.symbols.text(value))))
      if (!verdict) {
        good = false
        break
      }
    }
    if (good) out.push(series)
  }
  return Int32Array.from(out)
}

/** The symbol of the tag's value. `wanted.key` remembers the tag's own symbol once it was met. */
function symbolOfTag(index: SeriesIndex, series: number, wanted: { tag: string; key: number }): number {
  const { offsets, tags, symbols } = index
  for (let i = offsets[series]; i < offsets[series + 1]; i += 2) {
    if (wanted.key === ABSENT && symbols.text(tags[i]) === wanted.tag) wanted.key = tags[i]
    if (tags[i] === wanted.key) return tags[i + 1]
  }
  return ABSENT
}
