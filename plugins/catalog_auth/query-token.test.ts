import t from 'tap'
import { authPlugin, bearer, bootCatalog } from './testing.ts'

const LIST = '/v1/namespaces'

t.test('a token in the URL counts as one in the header, on the paths of the catalog only', async (t) => {
  const lines: string[] = []
  const node = await bootCatalog({ log: (line) => lines.push(line) })
  t.teardown(() => node.stop())
  const status = async (url: string, headers: Record<string, string> = {}) => (await node.inject({ url, headers })).statusCode
  for (const path of [LIST, '/v1/config', '/v1/namespaces/red', '/auth/context']) {
    t.equal(await status(`${path}?token=red`), 200, path)
    t.equal(await status(`${path}?token=nobody`), 401)
    t.equal(await status(`${path}?token=`), 401)
    t.equal(await status(`${path}?token=red&token=red`), 401, 'two tokens are none')
    t.equal(await status(`${path}?token=red`, bearer('nobody')), 401, 'the header wins')
    t.equal(await status(`${path}?token=nobody`, bearer('red')), 200)
    t.equal(await status(`${path}?token=red%0d%0ax`), 401, 'what no header could carry')
  }
  t.same((await node.inject(`${LIST}?token=red&parent=red`)).json(), { namespaces: [], 'next-page-token': null })
  t.equal((await node.inject({ method: 'HEAD', url: '/v1/namespaces/red?token=red' })).statusCode, 204)
  for (const path of ['/elsewhere', '/api/v1/openapi.json', '/metrics', '/auth/context/', '//v1/namespaces'])
    t.not(await status(`${path}?token=red`), 200, `${path} takes no token from its URL`)
  t.equal(await status('/elsewhere', bearer('red')), 200)
  t.equal(lines.filter((line) => line.includes('a token came in a URL')).length, 1, 'the log warns once')
  const metrics = (await node.inject({ url: '/metrics', headers: bearer('root') })).body
  t.match(metrics, /^svc_catalog_query_tokens_total [1-9]/m)
})

t.test('the config can refuse it', async (t) => {
  const node = await bootCatalog({ catalog: { query_token: false } })
  t.teardown(() => node.stop())
  t.match((await node.inject(`${LIST}?token=red`)).json(), { error: { message: /no credentials/, code: 401 } })
  t.equal((await node.inject({ url: LIST, headers: bearer('red') })).statusCode, 200)
})

t.test('the token is in no log line, answer or metric', async (t) => {
  const token = 's3cr3t-token-of-a-url'
  const lines: string[] = []
  const node = await bootCatalog({ plugins: [authPlugin], log: (line) => lines.push(line) })
  t.teardown(() => node.stop())
  const bodies: string[] = []
  for (const path of [LIST, '/v1/namespaces/red', '/v1/namespaces/%ff', '/elsewhere', '/nowhere', '/v1/namespaces/red/tables']) {
    for (const method of ['GET', 'POST', 'DELETE'] as const) {
      const answer = await fetch(`${node.url}${path}?token=${token}`, { method })
      bodies.push(await answer.text(), JSON.stringify([...answer.headers]))
    }
  }
  bodies.push((await node.inject({ url: '/metrics', headers: bearer('root') })).body)
  t.ok(
    lines.some((line) => line.includes('"path":"/v1/namespaces"')),
    'requests are logged',
  )
  t.same(
    [...lines, ...bodies].filter((text) => text.includes(token)),
    [],
  )
})
