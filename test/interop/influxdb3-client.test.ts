/** @influxdata/influxdb3-client, the JavaScript client of InfluxDB 3, over the write API of 2 and, with `noSync`, that of 3. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { startListeners } from './listeners.ts'
import { type Node, startNode } from './node.ts'

// Not typed here: the package is installed by `run` only.
const library = await import('@influxdata/influxdb3-client' as string).catch(() => undefined)
const skip = library === undefined ? 'the package is not installed' : false

const BASE = 1_700_000_000_000_000_000n
const UNITS = { ns: 1n, us: 1000n, ms: 1_000_000n, s: 1_000_000_000n }
const node: Node | undefined = skip === false ? await startNode() : undefined
after(() => node?.stop())
const server = (): Node => node as Node

for (const noSync of [false, true]) {
  const api = noSync ? 3 : 2
  const write = async (lines: string, options: object = {}): Promise<void> => {
    const client = new library.InfluxDBClient({ host: server().url, token: 'any', database: 'any' })
    try {
      await client.write(lines, undefined, undefined, { noSync, ...options })
    } finally {
      await client.close()
    }
  }

  test(`API ${api}: points arrive with their types, in every precision, plain and compressed`, { skip }, async () => {
    for (const [precision, unit] of Object.entries(UNITS)) {
      for (const gzipThreshold of [0, 1_000_000]) {
        const name = `of${api}_${precision}_${gzipThreshold}`
        await write(`${name},host=a f=0.5,i=-3i,u=7u,b=true,s="x y" ${BASE / unit}`, { precision, gzipThreshold })
        const [row] = await server().rows(name)
        assert.equal(BigInt(row.timestamp), BASE, name)
        assert.deepEqual(row.fields, { f: 0.5, i: -3, u: 7, b: true, s: 'x y' })
      }
    }
  })

  test(`API ${api}: a partial write keeps the good points and says which line was bad`, { skip }, async () => {
    const lines = [`part${api} v=1 ${BASE}`, `part${api} v="text" ${BASE + 1n}`, `part${api} v=3 ${BASE + 2n}`].join('\n')
    await assert.rejects(write(lines), /partial write: 2 points written, 1 rejected; first: line 2: /)
    assert.equal((await server().rows(`part${api}`)).length, 2)
  })
}

async function all(rows: AsyncIterable<unknown>): Promise<unknown[]> {
  const found: unknown[] = []
  for await (const row of rows) found.push(row)
  return found
}

test('SQL at the port of Flight SQL, with values by name', { skip }, async (t) => {
  const listeners = await startListeners(['flight_sql'])
  t.after(() => listeners.stop())
  const writer = new library.InfluxDBClient({ host: listeners.url, token: 'any', database: 'any' })
  const reader = new library.InfluxDBClient({ host: `http://${listeners.flight}`, token: 'any', database: 'any' })
  t.after(() => Promise.all([writer.close(), reader.close()]))
  const now = BigInt(Math.floor(Date.now() / 1000)) * 1_000_000_000n
  await writer.write(`cpu,host=a f=0.1,i=9007199254740993i ${now}\ncpu,host=b f=2,i=2i ${now + 1n}`)
  const rows = async (query: string, options: object = {}): Promise<unknown[]> => all(reader.query(query, 'any', { type: 'sql', ...options }))
  assert.deepEqual(await rows('SELECT host, f, i FROM cpu ORDER BY host'), [
    { host: 'a', f: 0.1, i: 9007199254740993n },
    { host: 'b', f: 2, i: 2n },
  ])
  assert.deepEqual(await rows('SELECT host FROM cpu WHERE i = $i', { params: { i: 2 } }), [{ host: 'b' }])
  await assert.rejects(rows('SELECT * FROM cpu', { type: 'influxql' }), /only "sql" is answered/)
})
