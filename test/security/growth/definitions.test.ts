/** What triggers, rollups and derived series are defined by, and lists and names of the rest of the API. */
import t from 'tap'
import { type Family, filled } from '../../support/growth.ts'
import { type GrowingRequest, growthNode, requestsGrow } from './requests.ts'

const BYTES = 400_000
const JSON_TYPE = { 'content-type': 'application/json' }
const json = (url: string, body: (bytes: number) => object): GrowingRequest => ({
  url,
  headers: JSON_TYPE,
  bytes: BYTES,
  body: (bytes) => JSON.stringify(body(bytes)),
})
const trigger = (query: Family<string>): GrowingRequest => json('/api/v1/triggers', (bytes) => ({ query: query(bytes) }))
const condition = (of: Family<string>): GrowingRequest => trigger((bytes) => `CREATE TRIGGER a ON cpu WHEN ${of(bytes)}`)
const rollup = (body: (bytes: number) => object): GrowingRequest =>
  json('/api/v1/rollups', (bytes) => ({
    name: 'r',
    source_measurement: 'cpu',
    target_measurement: 'cpu_1h',
    every: '1h',
    aggregations: ['avg'],
    ...body(bytes),
  }))
const list = (bytes: number, item: (i: number) => string): string[] => Array.from({ length: Math.floor(bytes / 12) }, (_, i) => item(i))

t.test('definitions', async (t) => {
  const node = await growthNode(t, ['line_protocol', 'triggers', 'rollups', 'analytics'], { triggers: {}, rollups: {} })
  await requestsGrow(t, node, {
    'comparisons of a trigger': condition((bytes) => filled(bytes, 'v > 1 AND ')),
    'parentheses of a trigger': condition((bytes) => '('.repeat(bytes)),
    'blanks of a trigger': condition((bytes) => `v${' '.repeat(bytes)}x`),
    'digits of a trigger': condition((bytes) => `v > ${'1'.repeat(bytes)}x`),
    'exponents of a trigger': condition((bytes) => `v > 1${'e1'.repeat(bytes / 2)}`),
    'quotes of a trigger': condition((bytes) => `v = '${"''".repeat(bytes / 2)}`),
    'a name of a trigger': trigger((bytes) => `CREATE TRIGGER ${'a'.repeat(bytes)} ON cpu WHEN v > 1`),
    'names of a trigger': trigger((bytes) => `CREATE TRIGGER a ON SIGNALS (${filled(bytes, 'b, ')}b) WITHIN INTERVAL '5m'`),
    'a duration of a trigger': trigger((bytes) => `CREATE TRIGGER a ON cpu WHEN v > 1 COOLDOWN INTERVAL '${'1s '.repeat(bytes / 3)}'`),
    'targets of a trigger': trigger((bytes) => `CREATE TRIGGER a ON cpu WHEN v > 1 DELIVER ${filled(bytes, "webhook('https://a/'), ")}log`),
    'words of a trigger': trigger((bytes) => filled(bytes, 'CREATE ')),
    'aggregations of a rollup': rollup((bytes) => ({ aggregations: list(bytes, (i) => `quantile(0.${i})`) })),
    'an aggregation of a rollup': rollup((bytes) => ({ aggregations: [`quantile(${'0'.repeat(bytes)})`] })),
    'tags of a rollup': rollup((bytes) => ({ group_by_tags: list(bytes, (i) => `t${i}`) })),
    'a span of a rollup': rollup((bytes) => ({ every: '1h'.repeat(bytes / 2) })),
    'members of a rollup that nobody knows': rollup((bytes) => Object.fromEntries(list(bytes, (i) => `k${i}`).map((key) => [key, 1]))),
    'a statement of a derived series': json('/api/v1/analytics/derived', (bytes) => ({
      name: 'd',
      measurement: 'd',
      every: '1m',
      query: `SELECT ${"'a' ".repeat(Math.min(bytes, 16_000) / 4)}'`,
    })),
    'comments of a derived series': json('/api/v1/analytics/derived', (bytes) => ({ name: 'd', query: '/*'.repeat(Math.min(bytes, 16_000) / 2) })),
    'members within members': { url: '/api/v1/rollups', headers: JSON_TYPE, bytes: BYTES, body: (bytes) => '{"a":'.repeat(bytes / 5) },
    'a member again and again': {
      url: '/api/v1/rollups',
      headers: JSON_TYPE,
      bytes: BYTES,
      body: (bytes) => `{${filled(bytes, '"__proto__":{},')}"name":"r"}`,
    },
    'a name in a path': { method: 'GET', url: '/api/v1/rollups/', bytes: 12_000, body: (bytes) => '%2F'.repeat(bytes / 3) },
    'levels of a path': { method: 'GET', url: '/api/v1', bytes: 12_000, body: (bytes) => '/a'.repeat(bytes / 2) },
    'parameters of a path': { method: 'GET', url: '/api/v1/signals?', bytes: 12_000, body: (bytes) => filled(bytes, 'limit=1&') },
  })
})
