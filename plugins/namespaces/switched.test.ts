/** server.multi_tenancy, switched between two starts: what plugins do by themselves in namespaces that nobody reaches rests until it is switched back. */
import { setTimeout } from 'node:timers/promises'
import { temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { until } from '../../test/support/until.ts'
import analytics from '../analytics/index.ts'
import line from '../line_protocol/index.ts'
import native from '../native/index.ts'
import rollups from '../rollups/index.ts'
import sql from '../sql/index.ts'
import plugin from './index.ts'
import { type FolderNode, openNode } from './testing.ts'

t.setTimeout(120_000)
const HOUR = 3_600_000_000_000n
const MINUTE = HOUR / 60n
const BEGIN = (BigInt(Date.now()) / 3_600_000n - 100n) * HOUR
const NOW = (BigInt(Date.now()) / 60_000n - 20n) * MINUTE
/** Of a pass of the plugins, many times. */
const REST_MS = 2500

for (const apart of [true, false])
  t.test(apart ? 'from together to apart, and back' : 'from apart to together, and back', async (t) => {
    const dir = temporaryFolder(t)
    const [caller, data] = apart ? ['default', ''] : ['acme', 'acme']
    const open = (multi_tenancy: boolean, working = true): Promise<FolderNode> => {
      const settings = { server: { multi_tenancy }, ...(working && { rollups: { interval_ms: 20 }, analytics: { derived_interval_secs: 1 } }) }
      return openNode(dir, settings, [], [line, native, plugin, ...(working ? [rollups, analytics, sql] : [])])
    }
    const write = async (at: FolderNode, host: string): Promise<void> => {
      const old = Array.from({ length: 60 }, (_, i) => `m,host=${host} v=${i} ${BEGIN + BigInt(i) * HOUR}`)
      const fresh = Array.from({ length: 3 }, (_, i) => `n,host=${host} v=${i} ${NOW + BigInt(i) * MINUTE}`)
      t.equal((await at.inject('POST', '/write?backfill=true', [...old, ...fresh, `m,host=${host} v=0 ${NOW}`].join('\n'), caller)).statusCode, 204)
    }
    const names = async (at: FolderNode, namespace: string) => ((await at.node.storage?.measurements(namespace)) ?? []).map(({ name }) => name).sort()
    const hosts = async (at: FolderNode, measurement: string): Promise<string[]> => {
      const answer = await at.inject('POST', '/api/v1/svc/query', { measurement }, caller)
      return answer.statusCode === 404 ? [] : ([...new Set(answer.json().map((row: { tags: { host: string } }) => row.tags.host))].sort() as string[])
    }
    const both = (at: FolderNode, wanted: string) =>
      until(`targets have ${wanted}`, async () => `${await hosts(at, 'm1')} ${await hosts(at, 'n1')}` === `${wanted} ${wanted}`)

    let at = await open(!apart)
    await write(at, 'a')
    const rollup = { name: 'r', source_measurement: 'm', target_measurement: 'm1', every: '1h', aggregations: ['count'] }
    t.equal((await at.inject('POST', '/api/v1/rollups', rollup, caller)).statusCode, 201)
    const query = 'SELECT _time, host, v * 2 AS w FROM n WHERE _time >= $1 AND _time < $2'
    t.equal((await at.inject('POST', '/api/v1/analytics/derived', { name: 'n1', query, every_secs: 1 }, caller)).statusCode, 201)
    await both(at, 'a')
    await at.node.stop()

    at = await open(!apart, false)
    await write(at, 'b')
    await at.node.stop()

    at = await open(apart)
    await setTimeout(REST_MS)
    const elsewhere = apart ? 'default' : ''
    t.same(await names(at, elsewhere), [], 'nothing is written to another namespace')
    t.same(await names(at, data), ['m', 'm1', 'n', 'n1'])
    await at.node.stop()

    at = await open(!apart)
    await both(at, 'a,b')
    await at.node.stop()
  })
