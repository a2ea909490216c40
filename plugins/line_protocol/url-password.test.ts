/** Credentials in the URL, as clients of InfluxDB 1 send them. */
import { boot } from 'svcdb/testkit'
import t, { type Test } from 'tap'

const WRITER = 'svc_writer'.padEnd(43, 'x')

async function start(t: Test, section: object = {}) {
  const keys = [{ name: 'writer', key: WRITER, admin: true }]
  const node = await boot({
    plugins: ['line_protocol', 'native', 'api_keys'],
    config: { line_protocol: section, auth: { api_keys: keys, api_key: { max_failures: 0 } } },
  })
  t.teardown(() => node.stop())
  return async (url: string, authorization?: string) => {
    const headers = { 'content-type': 'text/plain', ...(authorization === undefined ? {} : { authorization }) }
    const { statusCode, body } = await node.inject({ method: 'POST', url, headers, payload: url.startsWith('/query') ? 'q=SHOW DATABASES' : 'm v=1' })
    return [statusCode, body] as const
  }
}

t.test('the password is the key, whatever the name, and a header counts before it', async (t) => {
  const ask = await start(t)
  for (const url of [`/write?u=me&p=${WRITER}`, `/write?p=${WRITER}&db=x&u=`, `/write?p=${WRITER}`]) t.match(await ask(url), [204], url)
  t.match(await ask(`/query?u=me&p=${WRITER}`), [200, /databases/])
  t.match(await ask('/write?u=me&p=mistaken', `Bearer ${WRITER}`), [204])
  t.match(await ask(`/write?p=${WRITER}`, ' '), [204], 'an empty header is none')
  t.match(await ask('/write?p=two%20words'), [401, /credentials are not accepted/], 'it was given')
  t.match(await ask(`/write?u=me&p=${WRITER}`, 'Bearer wrong'), [401])
  for (const url of ['/write?u=me&p=mistaken', '/write?u=me&p=', '/write?u=me', `/write?u=${WRITER}`, `/write?p=${WRITER}&p=${WRITER}`]) {
    const [status, body] = await ask(url)
    t.equal(status, 401, url)
    t.notMatch(body, /writerx|mistaken/, 'nothing of it is shown')
  }
})

t.test('on the paths of InfluxDB 1 alone, and nowhere once it is switched off', async (t) => {
  const ask = await start(t)
  for (const path of ['/api/v2/write', '/api/v3/write_lp', '/api/v1/write', '/api/v1/svc/query']) t.match(await ask(`${path}?u=me&p=${WRITER}`), [401], path)
  const without = await start(t, { url_password: false })
  t.match(await without(`/write?u=me&p=${WRITER}`), [401])
  t.match(await without('/write', `Bearer ${WRITER}`), [204])
})
