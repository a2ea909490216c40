import { defineSkill } from 'svcdb/agents'
import { Type } from 'svcdb/lib/schema'
import t from 'tap'
import { startApi, tokenOf } from './testing.ts'

const echo = defineSkill({
  capability: 'echo',
  summary: 'Of a test',
  input: Type.Any(),
  output: Type.Any(),
  invoke: async (_context, input) => input,
})

t.test('who calls, whose plane, what the policies say, and then what was asked', async (t) => {
  const { as, with: bearing, run } = await startApi(t, [echo])
  const ours = await run('echo', 1)
  const theirs = await run('echo', 1, 'acme')
  t.match(await as('ann').get(`/runs/${ours}`), { status: 200, body: { run: ours, status: 'succeeded', records: 5 } })
  t.match(await as('zoe').get(`/runs/${theirs}`), { status: 200, body: { run: theirs } })
  for (const [authorization, error] of [
    [undefined, /no credentials were presented/],
    ['Basic YTpi', /no credentials were presented/],
    [`Bearer ${tokenOf('eve')}`, /are not accepted/],
    ['Bearer x', /are not accepted/],
  ] as const)
    for (const id of [ours, 'x', '%zz', 'run_01ARZ3NDEKTSV4RRFFQ69G5FAV', 'x'.repeat(5000)]) {
      const { status, body, headers } = await bearing(authorization).get(`/runs/${id}`)
      t.equal(status, 401)
      t.match(body.error, error)
      t.equal(headers['www-authenticate'], 'Bearer')
    }
  t.equal((await bearing(`bEaReR  ${tokenOf('ann')}`).get(`/runs/${ours}`)).status, 200, 'the scheme has no case')
  t.match(await as('stray').get(`/runs/${ours}`), { status: 403, body: { error: /no plane here for the tenant/ } })
  for (const id of [ours, 'x', '%zz', 'run_01ARZ3NDEKTSV4RRFFQ69G5FAV'])
    t.same((await as('nobody').get(`/runs/${id}`)).body, { error: 'nobody may not do "api:run.read" here: no policy permits it' })
  t.match(await as('ann').get('/runs/x'), { status: 400, body: { error: '"x" is not a run id' } })
  t.match(await as('ann').get('/runs/%zz'), { status: 400, body: { error: '"%zz" is not a run id' } })
  t.match(await as('ann').get('/runs/run_01ARZ3NDEKTSV4RRFFQ69G5FAV'), { status: 404, body: { error: /there is none/ } })
  t.equal((await as('ann').get(`/runs/${theirs}`)).status, 404, 'of another tenant')
  t.equal((await as('zoe').get(`/runs/${ours}`)).status, 404)
})

t.test('its tokens open nothing else, and nothing else opens it', async (t) => {
  const key = `svc_${'k'.repeat(43)}`
  const { node, with: bearing, as } = await startApi(t, [echo], { plugins: ['api_keys'], config: { auth: { api_keys: [{ name: 'k', key, admin: true }] } } })
  t.equal((await as('ann').get('/runs/run_01ARZ3NDEKTSV4RRFFQ69G5FAV')).status, 404)
  t.equal((await bearing(`Bearer ${key}`).get('/runs/run_01ARZ3NDEKTSV4RRFFQ69G5FAV')).status, 401)
  const other = async (token: string) => (await node.inject({ url: '/metrics', headers: { authorization: `Bearer ${token}` } })).statusCode
  t.same([await other(key), await other(tokenOf('ann'))], [200, 401])
})
