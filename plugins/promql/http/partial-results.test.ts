/** Panels that follow the clock go on from what they were answered before: compared with the same questions asked in words that nobody has used, while rows are written, deleted and dropped. */
import { seeded } from 'svcdb/lib/random'
import { boot } from 'svcdb/testkit'
import t from 'tap'
import { AGGREGATES, FUNCTIONS, type Signature } from '../functions/signatures.ts'

const BASE = 1_700_000_000
const SEED = Number(process.env.SVC_TEST_SEED ?? Math.floor(Math.random() * 2 ** 31))

/** Arguments by their type: of each some that are seldom seen. */
const ARGUMENTS: Record<string, readonly string[]> = {
  vector: [
    'a_v',
    'b_v offset 1m',
    'rate(a_v[3m])',
    '-b_v',
    '{__name__=~"[ab]_v"}',
    'a_v @ end()',
    'sum by (le, host) (h_bucket)',
    'h_bucket',
    'vector(time())',
  ],
  matrix: ['a_v[5m]', 'b_v[90s] offset 1m', 'a_v[7m:1m]', 'rate(b_v[2m])[6m:30s]', 'a_v[5m] @ start()', 'b_v[4m] offset -1m', 'c_v[10m]'],
  scalar: ['0.5', '2', 'scalar(b_v{host="1"})', 'time()'],
  string: ['"host"', '"le"', '"x"'],
}

function call(random: () => number, { name, args, variadic }: Signature): string {
  const more = variadic === 0 ? args : args.slice(0, args.length - Math.floor(random() * 2))
  return `${name}(${more.map((type) => pick(random, ARGUMENTS[type])).join(', ')})`
}

const pick = <T>(random: () => number, from: readonly T[]): T => from[Math.floor(random() * from.length)]

const QUERIES = [
  'a_v / on (host) group_left b_v',
  'a_v and on (host) (b_v > 400)',
  'a_v or b_v',
  'a_v unless on (host) c_v',
  'sum by (host) (rate(a_v[5m])) / sum by (host) (increase(b_v[5m]))',
  'max_over_time(sum by (host) (rate(a_v[2m]))[10m:1m])',
  'histogram_quantile(0.9, sum by (le) (rate(h_bucket[5m])))',
  'label_replace(a_v, "host", "same", "host", "[12]")',
  'sum without (host) (label_replace(a_v, "h", "$1", "host", "(.)"))',
  'topk(2, a_v) or bottomk(1, b_v)',
  'a_v > 500 or a_v * 0',
  'rate(a_v[1m]) or -a_v',
  'a_v > bool 500',
  'absent(c_v{host="1"})',
  '42',
  'time() - timestamp(a_v)',
  // Series that come to the same labels, at steps far apart or close.
  'max_over_time({__name__=~"[cd]_v"}[1m])',
  '-{__name__=~"[cd]_v"}',
  'label_replace(max_over_time(c_v[15s]), "host", "same", "host", ".*")',
  'limitk(2, {__name__=~"[abcd]_v"})',
  'sum_over_time(a_v[1m] offset 8m)',
  'max_over_time(sum(sum_over_time(b_v[6m]))[1m:30s])',
  'topk(hour() + time() % 120 / 60, vector(1))',
  'count_values("value", count_over_time(a_v[2m]))',
  'a_v * 0.1 + 0.7',
]

interface Answer {
  status: string
  error?: string
  warnings?: string[]
  infos?: string[]
  data?: { resultType: string; result: { metric: Record<string, string>; values?: [number, string][]; histograms?: unknown }[] }
}

/** Floats of stored aggregates may differ in their last digits, by what they are put together from. */
function differs(given: Answer, wanted: Answer): boolean {
  const close = (a: string, b: string): boolean => a === b || Math.abs(Number(a) - Number(b)) <= 1e-9 * Math.max(1e-3, Math.abs(Number(b)))
  const texts = ({ status, error, warnings, infos }: Answer): string => JSON.stringify([status, error, warnings, infos]).replaceAll(/ # \d+/g, '')
  if (texts(given) !== texts(wanted) || given.data?.resultType !== wanted.data?.resultType) return true
  const one = given.data?.result ?? []
  const other = wanted.data?.result ?? []
  if (one.length !== other.length) return true
  return one.some(({ metric, values = [], histograms }, i) => {
    const { metric: name, values: points = [], histograms: more } = other[i]
    if (JSON.stringify([metric, histograms]) !== JSON.stringify([name, more]) || values.length !== points.length) return true
    return values.some(([time, value], at) => time !== points[at][0] || !close(value, points[at][1]))
  })
}

t.test('an answer is what it would be without what is kept', async (t) => {
  t.comment(`seed ${SEED}`)
  const random = seeded(SEED)
  const upTo = (n: number): number => Math.floor(random() * n)
  const node = await boot({
    plugins: ['line_protocol', 'promql'],
    storage: 'embedded',
    config: { database: { memtable_flush_threshold: 65_536 } },
  })
  t.teardown(() => node.stop())
  const metric = async (name: string): Promise<number> => Number(new RegExp(`^svc_${name} (\\d+)$`, 'm').exec((await node.inject('/metrics')).body)?.[1])
  const write = async (lines: string[]): Promise<void> => {
    const { statusCode, body } = await node.inject({ method: 'POST', url: '/write?precision=s&backfill=true', payload: lines.join('\n') })
    if (statusCode !== 204) throw new Error(body)
  }
  const ask = async (query: string, start: number, end: number, step: number): Promise<Answer> =>
    JSON.parse((await node.inject(`/api/v1/query_range?query=${encodeURIComponent(query)}&start=${BASE + start}&end=${BASE + end}&step=${step}`)).body)

  let now = 1200
  const rowAt = (time: number): string[] => [
    ...[0, 1, 2].flatMap((host) => (random() < 0.1 ? [] : [`${pick(random, ['a', 'b'])},host=${host} v=${upTo(1000)} ${BASE + time}`])),
    ...['c', 'd'].flatMap((name) => (random() < 0.1 ? [`${name},host=${upTo(3)} v=${upTo(10)} ${BASE + time}`] : [])),
    ...['1', '5', '+Inf'].map((le, i) => `h,le=${le} bucket=${time * (i + 1)} ${BASE + time}`),
  ]
  for (let time = 0; time < now; time += 15) await write(rowAt(time))
  const live = async (): Promise<void> => {
    for (const until = now + upTo(120); now < until; now += 15) await write(rowAt(now + upTo(15)))
  }
  const remove = (): Promise<unknown> => {
    const start = BigInt(BASE + now - upTo(1500)) * 1_000_000_000n
    return node.storage.delete({
      namespace: '',
      measurement: pick(random, ['a', 'b']),
      start,
      end: start + BigInt(upTo(300)) * 1_000_000_000n,
      matchers: [],
    })
  }
  const changes: (() => Promise<unknown>)[] = [
    () => write([`${pick(random, ['a', 'b'])},host=${upTo(3)} v=${upTo(1000)} ${BASE + now - upTo(1500)}`]),
    () => write([`a,host=${3 + upTo(50)} v=${upTo(1000)} ${BASE + now - upTo(1200)}`]),
    () => write([`b,host=1 v=3,f${upTo(30)}=1 ${BASE + now}`]),
    remove,
    () => node.storage.flush(),
    () => node.storage.drop('', 'c').catch(() => {}),
    () => node.storage.declareField('', 'a', { name: `d${upTo(30)}`, type: 'int64' }),
  ]
  const queries = [
    ...[...FUNCTIONS.values()].map((signature) => call(random, signature)),
    ...Object.entries(AGGREGATES).flatMap(([op, { param }]) => {
      const before = param === undefined ? '' : param === 'string' ? '"value", ' : `${pick(random, ARGUMENTS.scalar)}, `
      return [`${op} by (host) (${before}a_v)`, `${op}(${before}increase(b_v[4m]))`]
    }),
  ]
  let fresh = 0
  const wrong: string[] = []
  for (let round = 0; round < 4; round++) {
    const panels = Array.from({ length: 25 }, () => ({
      query: pick(random, random() < 0.3 ? QUERIES : queries),
      width: 300 + 60 * upTo(14),
      step: pick(random, [15, 30, 60]),
      end: 0,
    }))
    for (let turn = 0; turn < 6; turn++) {
      if (random() < 0.7) await live()
      if (random() < 0.5) await pick(random, changes)()
      for (const panel of panels) {
        const { query, step } = panel
        if (random() < 0.1) panel.width = 300 + 60 * upTo(14)
        // As dashboards do: at multiples of the step. Now and then somebody looks back.
        const end = Math.floor((random() < 0.1 ? now - upTo(600) : now) / step) * step
        const start = end - Math.floor(panel.width / step) * step
        const given = await ask(query, start, end, step)
        const wanted = await ask(`${query} # ${++fresh}`, start, end, step)
        if (differs(given, wanted))
          wrong.push(`round ${round}, ${query} from ${start} to ${end} by ${step}:\n${JSON.stringify(given)} instead of\n${JSON.stringify(wanted)}`)
      }
    }
  }
  t.equal(wrong.length, 0, wrong.slice(0, 3).join('\n'))
  const went = await metric('result_cache_partial_total')
  t.ok(went > 80, `${went} went on from what was kept`)
})
