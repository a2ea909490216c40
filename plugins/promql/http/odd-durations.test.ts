/** Durations that are tiny, huge or odd, wherever one may stand: a question is answered or refused, and nothing else happens. */
import { seeded } from 'svcdb/lib/random'
import { boot } from 'svcdb/testkit'
import t from 'tap'
import native from '../../native/index.ts'
import plugin from '../index.ts'

const BASE = 1_700_000_000
const SEED = Number(process.env.SVC_TEST_SEED ?? Math.floor(Math.random() * 2 ** 31))
const TRIES = 600

const LITERALS =
  '0.0001 0.0004999 0.0009994 0.0009999999 0.001 0.0015 1e-9 1e-300 5e-324 0 0s 0ms 1ms 2ms 1.9999 1 59.9996 1m 5m 1h 1y 292y 9223372036 9.2e9'.split(' ')
const CALLS = [
  'step()',
  'range()',
  '(step() / 1e6)',
  '(0.0001)',
  '(1ms / 3)',
  '(1s ^ 400)',
  '((-1) ^ 0.5)',
  '(1m % 7)',
  'max_of(step(), 0.0001)',
  'min_of(1m, 0.0001)',
]
const TIMES = '0 0.0001 -0.0001 0.0005 -0.0005 1e-300 1700000000.0001 1700000000 -1700000000 9e15 -9e15 9.2e18 start() end()'.split(' ')
const STEPS = '0.0001 0.0009999 0.001 0.0015 1e-300 1ms 0 1.9999 5 1m 1y 292y'.split(' ')
const INNER = [
  'm',
  'start_timestamp(vector(1))',
  'vector(1)',
  'time()',
  'm > 1',
  'm + m',
  'sum(m)',
  'sum(rate(m[1m]))',
  'count_over_time(m[1m:10s])',
  'm smoothed',
  'h',
]
const RANGED = ['max_over_time', 'rate', 'last_over_time', 'count_over_time', 'absent_over_time', 'deriv', 'ts_of_last_over_time']
/** Answered, refused as it is, or refused for what it would take. */
const EXPECTED = new Set([200, 400, 422])

t.test('durations of every size in every place', async (t) => {
  t.comment(`seed ${SEED}`)
  const random = seeded(SEED)
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]
  const duration = (): string => (random() < 0.7 ? pick(LITERALS) : pick(CALLS))
  const sign = (): string => pick(['', '', '-', '+'])
  const modifiers = (): string => (random() < 0.3 ? ` offset ${sign()}${duration()}` : '') + (random() < 0.2 ? ` @ ${pick(TIMES)}` : '')
  const subquery = (): string => `(${pick(INNER)})[${duration()}:${random() < 0.9 ? duration() : ''}]${modifiers()}`
  const query = (): string => {
    const selector = `m[${duration()}]${pick(['', '', ' anchored', ' smoothed'])}${modifiers()}`
    const range = random() < 0.6 ? subquery() : selector
    const shape = random()
    if (shape < 0.1) return range
    if (shape < 0.2) return `m${modifiers()}`
    return `${pick(RANGED)}(${range})${pick(['', '', ' or m', ' + 1'])}`
  }
  const node = await boot({ plugins: [native, plugin], storage: 'embedded', config: { promql: { max_query_memory_bytes: 200_000 } } })
  t.teardown(() => node.stop())
  const points = Array.from({ length: 40 }, (_, i) => ({
    measurement: 'm',
    tags: { i: String(i % 2) },
    timestamp: (BASE + i * 15) * 1e9,
    fields: { value: i },
  }))
  const written = await node.inject({ method: 'POST', url: '/api/v1/write', payload: points })
  t.ok(written.statusCode < 300, written.body)
  const ask = async (path: string, params: Record<string, string>): Promise<{ status: number; json: { error?: string; data?: { result: unknown[] } } }> => {
    const { statusCode, json } = await node.inject({ url: `/api/v1/${path}?${new URLSearchParams(params)}` })
    return { status: statusCode, json: json() }
  }
  const now = String(BASE + 600)
  for (const range of ['up[5m:0.0001]', 'start_timestamp(vector(1))[5m:0.0001]', 'vector(1)[5m:1e-9]', 'up[0.0001]', 'up[0.0004:1ms]', 'up[0.0001:]']) {
    const { status, json } = await ask('query', { query: `max_over_time(${range}) or m`, time: now })
    t.equal(status, 400, range)
    t.match(json.error, /parse error: duration must be greater than 0$/, range)
  }
  const seen = new Map<number, number>()
  for (let i = 0; i < TRIES; i++) {
    const common = { query: query(), ...(random() < 0.3 ? { lookback_delta: `${sign()}${pick(LITERALS)}` } : {}) }
    const [path, params] =
      random() < 0.5
        ? ['query', { ...common, time: random() < 0.8 ? now : pick(TIMES.slice(0, -2)) }]
        : [
            'query_range',
            { ...common, start: String(BASE + pick([0, 0.0001, 0.0005, 0.9999])), end: String(BASE + pick([0, 0.9999, 60, 600])), step: pick(STEPS) },
          ]
    const { status, json } = await ask(path, params)
    seen.set(status, (seen.get(status) ?? 0) + 1)
    if (!EXPECTED.has(status)) t.fail(`${status} ${path} ${JSON.stringify(params)} ${json.error}`)
  }
  for (const status of EXPECTED) t.ok((seen.get(status) ?? 0) > 0, `some are answered with ${status}`)
  const { json } = await ask('query', { query: 'm', time: now })
  t.equal(json.data?.result.length, 2, 'and then it goes on')
})
