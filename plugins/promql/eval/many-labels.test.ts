/** Queries that list tens of thousands of labels or conditions cost what the series have of them: they end, and the next question has its thread. */
import { boot, type TestNode } from 'svcdb/testkit'
import t from 'tap'
import native from '../../native/index.ts'
import plugin from '../index.ts'

const SERIES = 5000
const MANY = 60_000
const now = Math.floor(Date.now() / 1000)

const listed = (count: number, text: (i: number) => string): string => Array.from({ length: count }, (_, i) => text(i)).join(',')

async function start(): Promise<TestNode> {
  const node = await boot({
    plugins: [native, plugin],
    storage: 'embedded',
    config: { server: { prom_query_timeout_secs: 20, max_control_body_size: 4_194_304 }, database: { regex_timeout_ms: 100 } },
  })
  const points = Array.from({ length: SERIES }, (_, i) => ({ measurement: 'x', tags: { i: `i${i}`, zone: `z${i % 2}` }, fields: { value: i } }))
  const written = await node.inject({
    method: 'POST',
    url: '/api/v1/write',
    payload: JSON.stringify(points),
    headers: { 'content-type': 'application/json' },
  })
  if (written.statusCode !== 204) throw new Error(written.body)
  return node
}

t.test('many labels and conditions', async (t) => {
  const node = await start()
  t.teardown(() => node.stop())
  const ask = async (query: string) => {
    const payload = new URLSearchParams({ query, time: String(now + 60) }).toString()
    const headers = { 'content-type': 'application/x-www-form-urlencoded' }
    const { statusCode, body } = await node.inject({ method: 'POST', url: '/api/v1/query', payload, headers })
    return { status: statusCode, body: JSON.parse(body) }
  }
  const value = async (query: string): Promise<string> => {
    const { status, body } = await ask(query)
    t.equal(status, 200, `${query.slice(0, 60)}: ${JSON.stringify(body).slice(0, 200)}`)
    return body.data?.result[0]?.value[1]
  }
  t.equal(await value(`count(x{${listed(MANY, (i) => `i!="i${2 * i}"`)}})`), String(SERIES / 2), 'values that a label must not have')
  t.equal(await value(`count(x{${listed(MANY, (i) => `none!="n${i}"`)}})`), String(SERIES), 'of a label that no series has')
  t.equal(await value(`count(x{${listed(MANY, () => 'zone="z1"')}})`), String(SERIES / 2), 'one condition again and again')
  t.equal(await value(`count(x * on (i) group_left (${listed(MANY, (i) => `l${i}`)}, zone) x)`), String(SERIES), 'labels that are taken over')
  t.equal(await value(`count(x * on (${listed(MANY, (i) => `m${i}`)}, i) group_left (${listed(MANY, (i) => `l${i}`)}) x)`), String(SERIES), 'and matched by')
  const patterns = await ask(`count(x{${listed(MANY, (i) => `i!~"n${i}.+"`)}})`)
  t.match(patterns, { status: 400, body: { errorType: 'bad_data', error: /^cannot find series by 60000 conditions on tags: together they take too long; / } })
  t.equal(await value('count(x)'), String(SERIES), 'the next question')
})
