/** PromQL: what is asked by one query, by its text alone and of some hundred series, and by parameters beside it. */
import t, { type Test } from 'tap'
import { type Family, filled } from '../../support/growth.ts'
import { FORM, range, sumOf } from '../loop-body.ts'
import { type GrowingRequest, growthNode, requestsGrow } from './requests.ts'

const BYTES = 64_000
const START = 1_700_000_000
type Form = (query: Family<string>, bytes?: number) => GrowingRequest

const form = (path: string, rest: string): Form => {
  return (query, bytes = BYTES) => ({ url: `/api/v1/${path}`, headers: FORM, bytes, body: (size) => `query=${encodeURIComponent(query(size))}${rest}` })
}
const instant = form('query', `&time=${START + 60}`)
const format = form('format_query', '')
const parse = form('parse_query', '')
const times = (bytes: number, of: number): number => Math.max(1, Math.floor(bytes / of))
/** Operators between many, in parentheses that halve them. */
const tree = (of: number, term: (i: number) => string, operator = '+'): Family<string> => {
  return (bytes) => sumOf(range(times(bytes, of), term)).replaceAll('+', operator)
}
const nested = (open: string, within: string, close: string, most = 490): Family<string> => {
  return (bytes) => {
    const levels = Math.min(most, times(bytes, open.length + close.length))
    return open.repeat(levels) + within + close.repeat(levels)
  }
}
const within = (open: string, item: string | ((i: number) => string), close: string, between = ''): Family<string> => {
  return (bytes) => open + filled(bytes, item, between) + close
}

/** Whatever is done with it. */
const TEXTS: Record<string, Family<string>> = {
  parentheses: nested('(', '1', ')'),
  'too many parentheses': nested('(', '1', ')', Number.POSITIVE_INFINITY),
  signs: within('', '-', '1'),
  'signs of parentheses': nested('-(', 'm', ')', 240),
  'operators in a row': within('', '1+', '1'),
  'operators of many labels': (bytes) => nested(`m + on (${filled(bytes / 200, 'a,')}b) (`, 'm', ')', 200)(bytes),
  'parentheses around many arguments': (bytes) => nested('(', `label_join(m,"x",${filled(bytes, '"",')}"")`, ')')(bytes),
  texts: within('"', '\\n', '"'),
  'bytes of a text': within('"', '\\xff', '"'),
  'a text that does not end': within('"', '\\"', ''),
  'hexadecimal digits': within('0x', 'f', ''),
  'octal digits': within('0', '7', ''),
  'underscores between digits': within('1', '_1', ''),
  points: within('', '1.', ''),
  exponents: within('', '1e1', ''),
  'digits of an exponent': within('1e', '1', ''),
  'digits before an exponent that is none': within('(', '1', 'e+)'),
  'digits behind a point before an exponent that is none': within('(1.', '1', 'e+)'),
  'digits of a duration': within('m[', '1', 's]'),
  durations: within('m[', '1s', ']'),
  'sums of durations': within('m[', '1s+', '1s]'),
  'parentheses of durations': within('m[', '(', '1s]'),
  'powers of durations': (bytes) => `m[${filled(Math.min(bytes, 900), '2^')}2]`,
  'offsets of a selector': within('m ', 'offset 1s ', ''),
  'times of a selector': within('m ', '@ 1 ', ''),
  comments: within('m ', '#\n', ''),
  'lines before a fault': within('m', '\n', '$'),
  'names that are no keywords': within('', 'fill ', ''),
  'a long name': within('', 'a:', ''),
  'braces that do not close': within('', 'm{', ''),
  'closing parentheses': within('', ')', ''),
  'flags of an expression': (bytes) => `m{a=~"${filled(Math.min(bytes, 16_000) / 2, '(?i)')}${filled(Math.min(bytes, 16_000) / 2, '|')}"}`,
  'a product of alternatives': (bytes) => `m{a=~"${'(a|b)'.repeat(14)}${filled(Math.min(bytes, 15_000), 'c.*')}"}`,
  'groups of an expression': (bytes) => `m{a=~"${nested('(', 'a', ')', 8000)(Math.min(bytes, 16_000))}"}`,
  'classes of an expression': (bytes) => `m{instance=~"${filled(Math.min(bytes, 16_000), '\\\\pL{9}')}"}`,
  'counts of an expression': (bytes) => `{__name__!="",town=~"${filled(Math.min(bytes, 16_000), '.{9}')}"}`,
  'names of a class': within('m{a=~"[', '[:', '"}'),
  'what an empty text passes in many ways': within('m{', 'a=~"(a*|b*|){60}x",', '}'),
}

const ANSWERED: Record<string, GrowingRequest> = {
  sums: instant(
    tree(6, () => 'm'),
    16_000,
  ),
  'sets of selectors': instant(tree(40, (i) => `m{instance="i${i % 300}"}`, ' or ')),
  differences: instant(tree(20, () => 'm', ' unless ')),
  'labels to match on': instant(within('m + on(', (i) => `l${i}`, ') m', ',')),
  'labels to take along': instant(within('m + on(instance) group_left(', 'job,', 'job) m')),
  'labels to group by': instant(within('sum by(', (i) => `l${i}`, ') (m)', ',')),
  'a label to group by': instant(within('sum by(', 'instance,', 'job) (m)')),
  'labels to leave out': instant(within('sum without(', (i) => `l${i}`, ') (m)', ',')),
  matchers: instant(within('m{', (i) => `l${i}!="v"`, '}', ',')),
  'matchers of a label': instant(within('m{', (i) => `instance!="v${i}"`, '}', ',')),
  'expressions of a label': instant(within('m{', (i) => `instance=~"i.*|v${i}"`, '}', ',')),
  'expressions that go back': instant(
    within('long{', (i) => `a=~".*a.*a.*a${i % 10}?.*"`, '}', ','),
    16_000,
  ),
  'expressions of a name': instant(within('{', (i) => `__name__=~"m|n${i}"`, '}', ',')),
  'texts of a label': instant((bytes) => `m{instance=~"${filled(Math.min(bytes, 16_000), (i) => `i${i}`, '|')}"}`),
  'matchers of nothing': instant(within('absent(nope{', (i) => `l${i}="v"`, '})', ',')),
  'a matcher of nothing': instant(within('absent(nope{', (i) => `l="v${i}"`, '})', ',')),
  'labels that double': instant((bytes) => nested('label_replace(', 'm', ',"instance","$1$1","instance","(.*)")')(Math.min(bytes, 2000)), 2000),
  'parts of a template': instant(within('label_replace(m,"x","', '$9', '","instance","(.*)")')),
  'groups of a template': instant((bytes) => `label_replace(m,"x","$1","instance","${'(.?)'.repeat(Math.min(bytes, 2000) / 4)}")`, 2000),
  'labels to join': instant(within('label_join(m,"x",",",', '"instance",', '"job")'), 16_000),
  'counts of counts': instant(nested('count_values("v",', 'm', ')')),
  quantiles: instant(tree(60, (i) => `histogram_quantile(0.${i},h_bucket)`, ' or ')),
  subqueries: instant(nested('sum_over_time(', 'm', '[5m:1m])', 30), 1000),
  'labels to sort by': instant(within('sort_by_label(m,', '"instance",', '"job")')),
  'functions of functions': instant(nested('ceil(', 'm', ')')),
  'largest of the largest': instant(nested('topk(5,', 'm', ')')),
  'information of information': instant((bytes) => {
    const numbers = `(${sumOf(range(times(bytes, 4), () => '1'))}+m@1)`
    return nested('info(', nested('(1+', numbers, ')', times(bytes, 500))(bytes), ')', times(bytes, 500))(bytes)
  }, 64_000),
  'labels of information': instant(within('info(m,{', (i) => `l${i}=~".+"`, '})', ',')),
  'times of selectors': instant(
    tree(25, (i) => `m @ ${START + i}`, ' or '),
    16_000,
  ),
}

const overRange = form('query_range', `&start=${START}&end=${START + 60}&step=15`)
/** Terms of which each is an operand of what is before it, or behind it. */
const chained = (operator: string, term: string): [string, Family<string>][] => [
  [
    `${term} ${operator} others`,
    (bytes) => Array.from({ length: Math.min(490, times(bytes, term.length + operator.length + 2)) }, () => term).join(` ${operator} `),
  ],
  [`${term} ${operator} (others)`, nested(`${term} ${operator} (`, term, ')', 240)],
]
const OPERATORS = ['or', 'and', 'unless', '+', '<= bool', '<=']
const CALLS = ['abs(', 'sort(', 'topk(1,', 'sum by(job)(', '-(', 'm or topk(1,', '-m or -(']
const CHAINS = [
  ...OPERATORS.flatMap((operator) => ['m', 'm*1', 'vector(0)'].flatMap((term) => chained(operator, term))),
  ...CALLS.map((open): [string, Family<string>] => [`${open}others)`, nested(open, 'm', ')', 240)]),
]
const RANGES: Record<string, GrowingRequest> = Object.fromEntries(CHAINS.map(([name, query]) => [name, overRange(query, 4000)]))

const parameter = (method: 'GET' | 'POST', url: string, body: Family<string>, bytes = 400_000): GrowingRequest => ({
  method,
  url: `/api/v1/${url}`,
  headers: FORM,
  bytes,
  body,
})
const PARAMETERS: Record<string, GrowingRequest> = {
  'selectors of series': parameter('POST', 'series', (bytes) => filled(bytes, (i) => `match[]=m${i}`, '&')),
  'a selector of series again and again': parameter('POST', 'series', (bytes) => filled(bytes, 'match[]=m&')),
  'selectors of labels': parameter('POST', 'labels', (bytes) => filled(bytes, (i) => `match[]={__name__=~"m|n${i}"}`, '&'), 100_000),
  'selectors in a URL': parameter('GET', 'series?', (bytes) => filled(bytes, 'match[]=m&'), 12_000),
  'digits of a limit': parameter('POST', 'query', (bytes) => `query=m&limit=${'1'.repeat(bytes)}`),
  'digits of a time': parameter('POST', 'query', (bytes) => `query=m&time=${'1'.repeat(bytes)}`),
  'digits of what is no time': parameter('POST', 'query', (bytes) => `query=m&time=${'1'.repeat(bytes)}x`),
  'digits of what is no step': parameter('POST', 'query_range', (bytes) => `query=m&start=1&end=2&step=${'1'.repeat(bytes)}x`),
  'digits of what is no timeout': parameter('POST', 'query', (bytes) => `query=m&timeout=${'1'.repeat(bytes)}x`),
  'digits of a fraction of a time': parameter('POST', 'query', (bytes) => `query=m&time=2024-01-01T00:00:00.${'1'.repeat(bytes)}Z`),
  'a step of durations': parameter('POST', 'query_range', (bytes) => `query=m&start=1&end=2&step=${'1s'.repeat(bytes / 2)}`),
  'blanks in a timeout': parameter('POST', 'query', (bytes) => `query=m&timeout=1${'+'.repeat(bytes)}s`),
  'names of objects': parameter('POST', 'query', (bytes) => `query=m&${filled(bytes, '__proto__=1&constructor=2&')}`),
  'escapes that are none': parameter('POST', 'query', (bytes) => `query=${'%'.repeat(bytes)}`),
  'exemplars of selectors': parameter(
    'POST',
    'query_exemplars',
    (bytes) => `query=${sumOf(range(times(bytes, 8), () => 'm')).replaceAll('+', '%2B')}&start=1&end=2`,
  ),
}

t.test('PromQL', async (t) => {
  const node = await growthNode(t, ['line_protocol', 'promql', 'exemplars'], { server: { prom_query_timeout_secs: 20 } })
  const written = await node.inject({ method: 'POST', url: '/write', payload: points(), headers: { 'content-type': 'text/plain' } })
  t.equal(written.statusCode, 204, written.body)
  const some = (name: string, requests: Record<string, GrowingRequest>) => t.test(name, (t: Test) => requestsGrow(t, node, requests))
  const all = (of: Form) => Object.fromEntries(Object.entries(TEXTS).map(([name, text]) => [name, of(text, 256_000)]))
  await some('texts that are asked', all(instant))
  await some('texts that are laid out', all(format))
  await some('trees of texts', all(parse))
  await some('what is answered', ANSWERED)
  await some('what is answered over a range', RANGES)
  // It may go on from what it was answered.
  await some('what is asked again over a range', RANGES)
  await some('parameters', PARAMETERS)
})

function points(): string {
  const lines = range(3000, (i) => `m,job=j${i % 3},instance=i${i % 300} value=${i % 17} ${START + Math.floor(i / 300) * 15}000000000`)
  for (const le of [...range(100, String), '+Inf']) lines.push(`h_bucket,le=${le} value=${le === '+Inf' ? 100 : le} ${START}000000000`)
  lines.push(`town,town=\u6771\u4eac value=1 ${START}000000000`)
  lines.push(`long,a=${'a'.repeat(4000)} value=1 ${START}000000000`)
  return lines.join('\n')
}
