/**
 * Listings of what callers define are made in parts: they take more turns of the event loop, not longer ones, however many items they have and however large those are.
 * Where they have pages, one costs what its own items cost.
 */
import { boot, type TestNode } from 'svcdb/testkit'
import t from 'tap'

/** Of an answer for each turn, at most: a part, its last item, and what a stream reads ahead. */
const TURN_BYTES = 200_000
const COUNT = 150
const MEASUREMENTS = 20_000

t.setTimeout(200_000)

interface Kind {
  name: string
  path: string
  /** What makes the i-th. */
  body(i: number): Record<string, unknown>
  /** The member of the listing that has the items. */
  items: string
}

const KINDS: Kind[] = [
  {
    name: 'triggers',
    path: '/api/v1/triggers',
    body: (i) => ({ query: `CREATE TRIGGER t${i} ON m WHEN ${Array.from({ length: 30 }, (_, n) => `host = '${'x'.repeat(480)}${n}'`).join(' OR ')}` }),
    items: 'triggers',
  },
  {
    name: 'rollups',
    path: '/api/v1/rollups',
    body: (i) => ({
      ...{ name: `r${i}`, source_measurement: `s${i}`, target_measurement: `t${i}`, every: '1m', aggregations: ['avg'] },
      group_by_tags: Array.from({ length: 40 }, (_, n) => `${'g'.repeat(1000)}${n}`),
    }),
    items: 'items',
  },
  {
    name: 'derived series',
    path: '/api/v1/analytics/derived',
    body: (i) => ({ name: `d${i}`, query: `SELECT _time, v FROM m WHERE _time >= $1 AND _time < $2 AND host <> '${'x'.repeat(15_000)}'`, every_secs: 86_400 }),
    items: 'derived',
  },
]

for (const { name, path, body, items } of KINDS) {
  t.test(`${name} that are large`, async (t) => {
    const node = await boot({
      plugins: ['native', 'sql', 'triggers', 'rollups', 'analytics'],
      storage: 'embedded',
      config: { triggers: {}, rollups: {}, analytics: { max_derived_series: COUNT } },
    })
    t.teardown(() => node.stop())
    const point = { measurement: 'm', tags: { host: 'a' }, fields: { v: 1 } }
    t.equal((await node.inject({ method: 'POST', url: '/api/v1/write', payload: [point] })).statusCode, 204)
    for (let i = 0; i < COUNT; i++) {
      const { statusCode, body: text } = await node.inject({ method: 'POST', url: path, payload: body(i) })
      if (statusCode >= 300) throw new Error(text)
    }
    const asked =
      name === 'triggers' ? [{ url: path }, { method: 'POST' as const, url: path, payload: { query: 'SHOW TRIGGERS' } }] : [{ url: `${path}?limit=1000` }]
    for (const request of asked) {
      const { answer, turns } = await turnsOf(node, request)
      t.equal(answer.statusCode, 200)
      t.match(answer.headers['content-type'], 'application/json')
      t.equal(answer.json()[items].length, COUNT)
      t.ok(turns > answer.body.length / TURN_BYTES, `${answer.body.length} bytes in ${turns} turns`)
    }
    t.equal((await node.inject({ method: 'HEAD', url: path })).statusCode, 200)
  })
}

t.test('a page of many measurements costs what one of few does', async (t) => {
  const node = await boot({ plugins: ['line_protocol', 'native'], storage: 'embedded' })
  t.teardown(() => node.stop())
  const write = async (from: number, count: number) => {
    const payload = Array.from({ length: count }, (_, i) => `m${from + i},host=a v=1`).join('\n')
    const { statusCode, body } = await node.inject({ method: 'POST', url: '/write', payload })
    if (statusCode !== 204) throw new Error(body)
  }
  const url = '/api/v1/measurements?limit=10&offset=10'
  await write(0, 20)
  const few = await leastMs(() => node.inject(url))
  for (let at = 20; at < MEASUREMENTS; at += 5000) await write(at, 5000)
  const { items, total } = (await node.inject(url)).json()
  t.same([items.length, items[0].name, total], [10, 'm10005', MEASUREMENTS + 20])
  const many = await leastMs(() => node.inject(url))
  t.ok(many < 8 * few, `${many} ms, and ${few} of few`)
})

/** Of several tries: others have the processor in between. */
async function leastMs(ask: () => Promise<unknown>): Promise<number> {
  let least = Number.POSITIVE_INFINITY
  for (let i = 0; i < 20; i++) {
    const before = performance.now()
    await ask()
    least = Math.min(least, performance.now() - before)
  }
  return least
}

async function turnsOf(node: TestNode, request: Parameters<TestNode['inject']>[0]) {
  let turns = 0
  let ended = false
  const count = (): void => {
    turns++
    if (!ended) setImmediate(count)
  }
  setImmediate(count)
  const answer = await node.inject(request)
  ended = true
  return { answer, turns }
}
