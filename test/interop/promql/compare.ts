/** Asks two servers the same and says how their answers differ. */

export interface Answer {
  status: string
  data?: { resultType: string; result: unknown }
  errorType?: string
  error?: string
  warnings?: string[]
  infos?: string[]
}

export interface Question {
  query: string
  /** Seconds. An instant query is one with `time`. */
  time?: number
  start?: number
  end?: number
  step?: number
}

type Histogram = { count: string; sum: string; buckets?: [number, string, string, string][] }
type Labelled = {
  metric: Record<string, string>
  value?: [number, string]
  values?: [number, string][]
  histogram?: [number, Histogram]
  histograms?: [number, Histogram][]
}

/** Sums depend on the order of series in their last digits, and the variance of large values in more than those. */
const RELATIVE = 1e-7
const ABSOLUTE = 1e-6
/** The most annotations of a kind that an answer has; beyond that, which ones is free. */
const MAX_ANNOTATIONS = 10
/** Of an error that names series, which ones is free. */
const NAMES_SERIES =
  /^(.*?(?:found duplicate series for the match group|multiple matches for labels|vector cannot contain metrics|matching labels must be unique)[^{]*)/

export async function ask(url: string, { query, ...rest }: Question): Promise<Answer> {
  const params = new URLSearchParams({ query, ...Object.fromEntries(Object.entries(rest).map(([name, value]) => [name, String(value)])) })
  const answer = await fetch(`${url}/api/v1/${rest.time === undefined ? 'query_range' : 'query'}`, { method: 'POST', body: params })
  const text = await answer.text()
  try {
    return JSON.parse(text) as Answer
  } catch {
    throw new Error(`${url} answered ${answer.status} with ${JSON.stringify(text.slice(0, 200))}`)
  }
}

/** The floats of an instant vector. @throws Error when it is refused. */
export async function vector(url: string, query: string, time = Date.now() / 1000): Promise<{ metric: Record<string, string>; value: number }[]> {
  const { status, error, data } = await ask(url, { query, time })
  if (status !== 'success' || data?.resultType !== 'vector') throw new Error(`${query} gives ${error ?? data?.resultType}`)
  return (data.result as Labelled[]).map(({ metric, value }) => ({ metric, value: Number(value?.[1]) }))
}

export function closeEnough(a: string, b: string): boolean {
  if (a === b) return true
  const [x, y] = [Number(a), Number(b)]
  // Infinities and NaN are close to nothing but themselves: a share of infinity is no bound.
  if (!Number.isFinite(x) || !Number.isFinite(y)) return false
  const gap = Math.abs(x - y)
  return gap <= ABSOLUTE || gap <= RELATIVE * Math.max(Math.abs(x), Math.abs(y))
}

/**
 * Empty buckets are not in an answer, but a product of nothing and infinity is: which empty buckets a histogram has depends on the others
 * that Prometheus has packed together with it. Where all is NaN, what other histograms add to buckets shows just where there was none.
 */
function bucketsOf({ count, buckets = [] }: Histogram, onlyOneEmpty: boolean): NonNullable<Histogram['buckets']> {
  if (count === 'NaN' && !onlyOneEmpty) return []
  return buckets.filter(([, , , count]) => count !== 'NaN')
}

const showsEmpty = ({ buckets = [] }: Histogram): boolean => buckets.some(([, , , count]) => count === 'NaN')

function histogramsDiffer(a: Histogram, b: Histogram): boolean {
  // What is computed from the buckets (`</` and `>/` do it) is NaN as well where one of the two has such a bucket.
  const onlyOneEmpty = showsEmpty(a) !== showsEmpty(b)
  const differ = (x: string, y: string): boolean => !closeEnough(x, y) && !(onlyOneEmpty && (x === 'NaN' || y === 'NaN'))
  if (differ(a.count, b.count) || differ(a.sum, b.sum)) return true
  const [one, two] = [bucketsOf(a, onlyOneEmpty), bucketsOf(b, onlyOneEmpty)]
  return (
    one.length !== two.length || one.some(([flag, ...rest], i) => flag !== two[i][0] || rest.some((value, k) => !closeEnough(value, two[i][k + 1] as string)))
  )
}

const labelKey = (metric: Record<string, string>): string => JSON.stringify(Object.entries(metric).sort(([a], [b]) => (a < b ? -1 : 1)))

/** One text a sample: labels unless they are free, time, and what kind of value it is; with the value itself. */
function cells(series: readonly Labelled[], labels: boolean): Map<string, (string | Histogram)[]> {
  const out = new Map<string, (string | Histogram)[]>()
  const put = (metric: string, [time, value]: [number, string | Histogram]) => {
    const key = `${metric} @${time} ${typeof value === 'string' ? 'float' : 'histogram'}`
    const list = out.get(key)
    if (list === undefined) out.set(key, [value])
    else list.push(value)
  }
  for (const { metric, value, values = [], histogram, histograms = [] } of series) {
    const key = labels ? labelKey(metric) : ''
    for (const point of value === undefined ? values : [value]) put(key, point)
    for (const point of histogram === undefined ? histograms : [histogram]) put(key, point)
  }
  return out
}

const finite = (...values: (string | Histogram)[]): boolean => values.every((value) => typeof value === 'string' && Number.isFinite(Number(value)))

/** NaN last. */
function byValue(a: string | Histogram, b: string | Histogram): number {
  const [x, y] = [a, b].map((value) => Number((typeof value === 'string' ? value : value.sum).replace('Inf', 'Infinity')))
  if (Number.isNaN(x) || Number.isNaN(y)) return Number(Number.isNaN(x)) - Number(Number.isNaN(y))
  return x < y ? -1 : x > y ? 1 : 0
}

function resultsDiffer(a: readonly Labelled[], b: readonly Labelled[], labels: boolean, digits: boolean): string | undefined {
  const [one, two] = [cells(a, labels), cells(b, labels)]
  for (const [key, values] of one) {
    const others = two.get(key)
    if (others === undefined) return `only the first has ${key}: ${JSON.stringify(values[0])}`
    if (values.length !== others.length) return `${values.length} and ${others.length} samples at ${key}`
    const [left, right] = [values.toSorted(byValue), others.toSorted(byValue)]
    for (const [i, value] of left.entries()) {
      const other = right[i]
      const same =
        typeof value === 'string' ? closeEnough(value, other as string) || (!digits && finite(value, other)) : !histogramsDiffer(value, other as Histogram)
      if (!same) return `${key}: ${JSON.stringify(value)} and ${JSON.stringify(other)}`
    }
  }
  for (const [key, values] of two) if (!one.has(key)) return `only the second has ${key}: ${JSON.stringify(values[0])}`
  return undefined
}

/** Where the query asks for an order, whether both keep to it: by value, as equal values may take turns. */
function orderDiffers(query: string, a: readonly Labelled[], b: readonly Labelled[]): string | undefined {
  if (/^sort_by_label/.test(query)) {
    const [one, two] = [a, b].map((list) => list.map(({ metric }) => labelKey(metric)).join('\n'))
    return one === two ? undefined : `order of labels:\n${one}\nand\n${two}`
  }
  if (!/^(sort|sort_desc|topk|bottomk) ?\(/.test(query)) return undefined
  for (const [i, { value }] of a.entries()) {
    const other = b[i]?.value
    if (value !== undefined && other !== undefined && !closeEnough(value[1], other[1])) return `order of values: place ${i} has ${value[1]} and ${other[1]}`
  }
  return undefined
}

const comparable = (error = ''): string => NAMES_SERIES.exec(error)?.[1] ?? error

/**
 * Of what is wrong with the pairs of samples of an operator at one step, Prometheus tells the last it met; and how many samples were made
 * monotonic it counts anew each time that it puts annotations together.
 */
const settled = (text: string): string =>
  text
    .replace(/^(?:warning|info): PromQL \w+: incompatible .* (binary operator) "?([^" ]+)"?(?:: \w+ \S+ \w+)? \(/, '$1 $2 (')
    .replace(/ over \d+ samples from .* to \S+/, '')

/** An aggregation that met floats and histograms has seen more or less of the others before that. */
function withoutMixed(texts: string[]): string[] {
  const mixed = texts.flatMap((text) => /mix of histograms and floats for aggregation (\(\S+\))/.exec(text)?.[1] ?? [])
  const followsOrder = / during aggregation | exponential and custom buckets schemas /
  return texts.filter((text) => !(followsOrder.test(text) && mixed.some((place) => text.endsWith(place))))
}

/** What is told of the pairs of an operator: its place. */
const OF_PAIRS =
  /^(?:binary operator \S+|(?:warning|info): PromQL \w+: (?:mismatched custom buckets were reconciled|conflicting counter resets) during (?:histogram )?(?:addition|subtraction)) \((\S+)\)$/

/** Of the pairs of an operator at one step Prometheus tells one thing, the last. Where several are wrong in different ways, which of them is free. */
function withoutSeveral(lists: readonly string[][]): string[][] {
  const told = lists.flatMap((list) => Object.entries(Object.groupBy(list, (text) => OF_PAIRS.exec(text)?.[1] ?? '')))
  const several = new Set(told.flatMap(([place, texts = []]) => (place !== '' && texts.length > 1 ? [place] : [])))
  return lists.map((list) => list.filter((text) => !several.has(OF_PAIRS.exec(text)?.[1] ?? '')))
}

function annotationsDiffer(a: Answer, b: Answer): string | undefined {
  if ([a, b].some(({ warnings = [], infos = [] }) => Math.max(warnings.length, infos.length) >= MAX_ANNOTATIONS)) return undefined
  const lists = [a, b].map(({ warnings = [], infos = [] }) => [...warnings.map((text) => `warning: ${text}`), ...infos.map((text) => `info: ${text}`)])
  const [one, two] = withoutSeveral(lists.map((list) => withoutMixed([...new Set(list.map((text) => settled(comparable(text))))]))).map((list) =>
    list.sort().join('\n'),
  )
  return one === two ? undefined : `annotations: ${JSON.stringify(lists[0])} and ${JSON.stringify(lists[1])}`
}

/**
 * Prometheus overlooks that a float and a histogram have come to the same labels at the same time, and goes on with either; or, under an `@`, finds two
 * samples where it has to be one.
 */
function overlooked(query: string, a: Answer, b: Answer): boolean {
  if (b.error !== 'vector cannot contain metrics with the same labelset' || !/\bmixed\b/.test(query)) return false
  return a.status === 'success' || a.error === 'unexpected number of samples'
}

/**
 * What is left of a division depends on digits that the dividend may not have: a power and an exponential are the same but for the last one, and of a
 * large one that is more than the divisor.
 */
const restOfPower = (query: string): boolean => query.includes('%') && /\^|\b(?:exp|sinh|cosh|tan)\b/.test(query)

/** With names that need no quotes Prometheus refuses labels with a colon in groupings, which it takes without that feature, as svc does with it. */
const colonInGrouping = ({ error = '' }: Answer): boolean => /invalid label name for grouping: "[^"]*:/.test(error)

/** @returns how the answers differ; undefined when they do not. */
export function difference(query: string, a: Answer, b: Answer, labels: boolean): string | undefined {
  if (overlooked(query, a, b) || colonInGrouping(a)) return undefined
  if (a.status !== b.status) return `${a.status} ${a.error ?? ''} and ${b.status} ${b.error ?? ''}`
  if (a.status === 'error') {
    const [one, two] = [a, b].map(({ errorType, error }) => `${errorType}: ${comparable(error)}`)
    return one === two ? undefined : `errors ${JSON.stringify(a.error)} (${a.errorType}) and ${JSON.stringify(b.error)} (${b.errorType})`
  }
  if (a.data?.resultType !== b.data?.resultType) return `types ${a.data?.resultType} and ${b.data?.resultType}`
  if (a.data?.resultType === 'scalar' || a.data?.resultType === 'string') {
    const [one, two] = [a, b].map(({ data }) => data?.result as [number, string])
    if (one[0] !== two[0] || !(closeEnough(one[1], two[1]) || (restOfPower(query) && finite(one[1], two[1]))))
      return `${JSON.stringify(one)} and ${JSON.stringify(two)}`
  } else {
    const [one, two] = [a, b].map(({ data }) => data?.result as Labelled[])
    const found = resultsDiffer(one, two, labels, !restOfPower(query)) ?? orderDiffers(query, one, two)
    if (found !== undefined) return found
  }
  return annotationsDiffer(a, b)
}
