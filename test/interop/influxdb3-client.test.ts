/** @influxdata/influxdb3-client, the JavaScript client of InfluxDB 3, over the write API of 2 and, with `noSync`, that of 3. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
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
