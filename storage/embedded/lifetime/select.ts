/** Which series a delete means: the matchers over the series index, each distinct value judged once. */
import type { Matcher } from '../../../kernel/storage.ts'
import { compileOne } from '../../common/matchers.ts'
import type { SeriesIndex } from '../series-index.ts'

const ABSENT = -1

/** Live series of a measurement that satisfy all matchers, ascending. @param regexTimeoutMs what one regular expression may take. */
export function selectSeries(index: SeriesIndex, measurement: number, matchers: readonly Matcher[], regexTimeoutMs?: number): Int32Array {
  const conditions = matchers.map((matcher) => ({ tag: matcher.tag, condition: compileOne(matcher, regexTimeoutMs) }))
  let left: number[] = []
  for (let series = 0; series < index.count; series++) if (index.measurement[series] === measurement && index.isLive(series)) left.push(series)
  for (const { tag, condition } of conditions) {
    const symbols = symbolsOfTag(index, left, tag)
    const distinct = [...new Set(symbols)]
    const flags = condition.flags(distinct.map((symbol) => (symbol === ABSENT ? '' : index.symbols.text(symbol))))
    const good = new Set(distinct.filter((_, i) => flags[i] === 1))
    left = left.filter((_, i) => good.has(symbols[i]))
  }
  return Int32Array.from(left)
}

/** The symbol of each series' value of a tag. */
function symbolsOfTag({ offsets, tags, symbols }: SeriesIndex, series: readonly number[], tag: string): number[] {
  let key = ABSENT
  return series.map((number) => {
    for (let i = offsets[number]; i < offsets[number + 1]; i += 2) {
      if (key === ABSENT && symbols.text(tags[i]) === tag) key = tags[i]
      if (tags[i] === key) return tags[i + 1]
    }
    return ABSENT
  })
}
