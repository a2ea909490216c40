import { definePlugin } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { boot } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import line from '../../line_protocol/index.ts'
import plugin from '../index.ts'

const NOW = Math.floor(Date.now() / 1000)

async function start(t: Test, config: object = { admin_api: 'on' }) {
  const node = await boot({ plugins: [plugin, line], config: { promql: { ...config } } })
  t.teardown(() => node.stop())
  const lines = ['a', 'b'].flatMap((job) => [2, 1].map((ago) => `up,job=${job} value=${ago} ${NOW - ago}`))
  const payload = [...lines, `node,job=a load=1,mem=2 ${NOW}`, `one,job=a load=1 ${NOW}`].join('\n')
  t.equal((await node.inject({ method: 'POST', url: '/write?precision=s', payload })).statusCode, 204)
  return {
    node,
    async post(path: string, method: 'POST' | 'PUT' = 'POST') {
      const { statusCode: http, body } = await node.inject({ method, url: `/api/v1/admin/tsdb/${path}` })
      return { http, ...(body === '' ? {} : JSON.parse(body)) }
    },
    async count(query: string): Promise<string[]> {
      const { data } = (await node.inject(`/api/v1/query?time=${NOW}&query=${encodeURIComponent(query)}`)).json()
      return data.result.map(({ metric, value }: { metric: { job: string }; value: [number, string] }) => `${metric.job} ${value[1]}`).sort()
    },
  }
}

const match = (...selectors: string[]) => selectors.map((selector) => `match[]=${encodeURIComponent(selector)}`).join('&')

t.test('series are deleted by selectors and time, both ends included', async (t) => {
  const { post, count } = await start(t)
  t.same(await count('count_over_time(up[1m])'), ['a 2', 'b 2'])
  t.same(await post(`delete_series?${match('up{job=~"a|x"}')}&start=${NOW - 2}&end=${NOW - 2}`), { http: 204 })
  t.same(await count('count_over_time(up[1m])'), ['a 1', 'b 2'])
  t.same(await post(`delete_series?${match('up{job="b"}', 'one_load')}`, 'PUT'), { http: 204 })
  t.same(await count('count_over_time(up[1m])'), ['a 1'])
  t.same(await count('one_load'), [])
  t.same(await post(`delete_series?${match('none{job="b"}')}`), { http: 204 })
  t.same(await post(`delete_series?${match('{job="a"}')}`), { http: 204 }, 'all fields of a measurement together')
  t.same(await count('node_load'), [])
})

t.test('the end is a millisecond: samples that queries show at it are deleted, too', async (t) => {
  const { node, post, count } = await start(t)
  const second = `${NOW - 5}`
  const payload = [`${second}000000000`, `${second}000000001`, `${second}000999999`, `${second}001000000`].map((time, i) => `fine,job=a value=${i} ${time}`)
  t.equal((await node.inject({ method: 'POST', url: '/write', payload: payload.join('\n') })).statusCode, 204)
  t.same(await count('count_over_time(fine[1m])'), ['a 2'])
  t.same(await post(`delete_series?${match('fine')}&start=${second}&end=${second}`), { http: 204 })
  t.same(await count('last_over_time(fine[1m])'), ['a 3'])
  t.same(await count('count_over_time(fine[1m])'), ['a 1'])
})

t.test('a measurement that is dropped meanwhile is no failure, and those behind it are deleted', async (t) => {
  const { node, post, count } = await start(t)
  const { storage } = node
  const remove = storage.delete.bind(storage)
  storage.delete = async (request) => {
    if (request.measurement === 'up') await storage.drop(request.namespace, 'up', { final: true })
    return remove(request)
  }
  t.same(await post(`delete_series?${match('up', 'one_load')}`), { http: 204 })
  t.same(await count('one_load'), [])
})

t.test('what would take more along, or cannot be read, deletes nothing', async (t) => {
  const { post, count } = await start(t)
  const cases: [string, RegExp][] = [
    [match('up', 'node_load'), /measurement "node" have the field "mem" too/],
    [match('up', 'up{'), /invalid parameter "match\[\]"/],
    [match(`up{job="${'x'.repeat(70_000)}"}`), /invalid parameter "match\[\]"/],
    ['start=1', /no match\[\] parameter provided/],
    [`${match('up')}&start=5&end=4`, /end timestamp must not be before start/],
    [`${match('up')}&start=x`, /invalid time value/],
  ]
  for (const [query, error] of cases) t.match(await post(`delete_series?${query}`), { http: 400, errorType: 'bad_data', error }, query.slice(0, 60))
  t.same(await count('count_over_time(up[1m])'), ['a 2', 'b 2'])
})

t.test('it is off by default, and says what else does the rest', async (t) => {
  const off = await start(t, {})
  for (const path of [`delete_series?${match('up')}`, 'snapshot', 'clean_tombstones'])
    t.match(await off.post(path), { http: 503, errorType: 'unavailable', error: /admin APIs disabled/ })
  t.equal((await off.count('up')).length, 2)
  const on = await start(t)
  t.match(await on.post('snapshot'), { http: 503, error: /POST \/api\/v1\/admin\/backup/ })
  t.match(await on.post('clean_tombstones'), { http: 503, error: /compaction/ })
})

t.test('it needs the right to delete', async (t) => {
  const readers = definePlugin({
    id: 'readers',
    summary: 'Lets callers read only',
    stability: 'experimental',
    setup(svc) {
      svc.auth.authenticator(() => ({ principal: 'p', method: 'test', claims: {}, namespaces: [], admin: false }))
      svc.auth.authorizer(({ action }) => (action === 'read' ? undefined : new SvcError('FORBIDDEN', `may not ${action}`)))
    },
  })
  const node = await boot({ plugins: [plugin, readers], config: { promql: { admin_api: 'on' } } })
  t.teardown(() => node.stop())
  const answer = await node.inject({ method: 'POST', url: `/api/v1/admin/tsdb/delete_series?${match('up')}` })
  t.equal(answer.statusCode, 403)
  t.match(answer.body, /may not delete/)
})
