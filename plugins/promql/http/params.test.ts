import t from 'tap'
import { Form, Params, parseTime } from './params.ts'
import { stepsOf } from './query-endpoints.ts'

const of = (url: Record<string, string | string[]>, form?: string) => new Params(url, form === undefined ? undefined : new Form(form))

t.test('times: seconds with a fraction, RFC 3339, the ends of time', async (t) => {
  for (const [text, ms] of [
    ['0', 0],
    ['1435781451.781', 1435781451781],
    ['1435781451.7814', 1435781451781],
    ['1.9999', 2000],
    ['-1.5', -1500],
    ['-1.0006', -1001],
    ['1e3', 1_000_000],
    ['.5', 500],
    ['2015-07-01T20:10:51.781Z', 1435781451781],
    ['2015-07-01T20:10:51Z', 1435781451000],
    ['2015-07-01T22:10:51.781999999+02:00', 1435781451781],
    ['2015-07-01T18:40:51-01:30', 1435781451000],
    ['1969-12-31T23:59:59.5Z', -500],
    ['0001-01-01T00:00:00Z', -62135596800000],
    ['2024-02-29T00:00:00Z', 1709164800000],
    ['-292273086-05-16T16:47:06Z', -9_223_309_901_257_974],
    ['1e30', 2 ** 53 - 1],
  ] as const)
    t.equal(parseTime(text), ms, text)
  for (const text of ['', 'now', 'NaN', 'Inf', '1.2.3', '2015-07-01', '2015-02-29T00:00:00Z', '2015-13-01T00:00:00Z', '2015-07-01T24:00:00Z', '1e999', '0x10'])
    t.equal(parseTime(text), undefined, text)
})

t.test('what cannot be read is refused in the words of the Prometheus API', async (t) => {
  t.throws(() => of({ time: 'x' }).time('time'), {
    message: 'invalid parameter "time": invalid time value for \'time\': cannot parse "x" to a valid timestamp',
  })
  t.throws(() => of({}).requiredTime('start'), { message: 'invalid parameter "start": cannot parse "" to a valid timestamp' })
  t.throws(() => of({}).requiredDuration('step'), { message: 'invalid parameter "step": cannot parse "" to a valid duration' })
  t.throws(() => of({ step: '1m1h' }).requiredDuration('step'), { message: 'invalid parameter "step": cannot parse "1m1h" to a valid duration' })
  t.throws(() => of({ step: '1e30' }).requiredDuration('step'), { message: /"1e30" to a valid duration. It overflows int64$/ })
  t.throws(() => of({ limit: 'ten' }).limit(), { message: 'invalid parameter "limit": strconv.Atoi: parsing "ten": invalid syntax' })
  t.throws(() => of({ timeout: '0' }).timeout(), { message: 'invalid parameter "timeout": timeout must be positive, got 0s' })
  t.throws(() => of({ timeout: '-1.5' }).timeout(), { message: 'invalid parameter "timeout": timeout must be positive, got -1.5s' })
  t.throws(() => of({ limit: '-1' }).limit(), { message: 'invalid parameter "limit": limit must be non-negative' })
})

t.test('durations and limits', async (t) => {
  for (const [text, ms] of [
    ['15', 15_000],
    ['0.5', 500],
    ['-3', -3000],
    ['15s', 15_000],
    ['1m30s', 90_000],
    ['1y2w3d4h5m6s7ms', 365 * 86_400_000 + 14 * 86_400_000 + 3 * 86_400_000 + 4 * 3_600_000 + 5 * 60_000 + 6000 + 7],
    ['0', 0],
  ] as const)
    t.equal(of({ step: text }).requiredDuration('step'), ms, text)
  t.equal(of({}).timeout(), undefined)
  t.equal(of({ timeout: '1m' }).timeout(), 60_000)
  t.equal(of({}).limit(), 0)
  t.equal(of({ limit: '+7' }).limit(), 7)
  t.equal(of({ limit: '0000000000000001' }).limit(), 1)
  t.equal(of({ limit: '9223372036854775807' }).limit(), Number.MAX_SAFE_INTEGER, 'what some clients send for all')
  t.throws(() => of({ limit: '9223372036854775808' }).limit(), { message: /parsing "9223372036854775808": value out of range$/ })
})

t.test('the form comes before the URL; repeated values are all there', async (t) => {
  const params = of({ query: 'url', 'match[]': ['a', 'b'], only: 'here' }, 'query=a%2Bb+c&match%5B%5D=c&x=1&x=2')
  t.equal(params.get('query'), 'a+b c')
  t.equal(params.get('only'), 'here')
  t.equal(params.get('x'), '1')
  t.same(params.all('match[]'), ['c', 'a', 'b'])
  t.same(params.all('none'), [])
  t.throws(() => new Params({ a: '1' }, { a: '2' }), { code: 'UNSUPPORTED_MEDIA_TYPE' }, 'a JSON body is no form')
  t.equal(new Params({ a: '1' }, new Uint8Array([1])).get('a'), '1')
  t.equal(new Params(Object.create(null), new Form('__proto__=1')).get('constructor'), '')
})

t.test('the limit of steps is that of the steps made, which are whole milliseconds', async (t) => {
  const steps = (end: string, step: string) => stepsOf(new Params({ start: '0', end, step }, undefined), 100)
  t.same(steps('0.1', '0.0015'), { start: 0, interval: 1, count: 101 })
  t.throws(() => steps('0.101', '0.0015'), { message: /^exceeded maximum resolution of 100 points per timeseries\./ })
})
