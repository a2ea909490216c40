import type { ServiceDefinition } from '@grpc/grpc-js'
import { SvcError } from 'svcdb/lib/errors'
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { deleteRequest, measurementName, queryPlan, sqlText, streamEnvelope, writeEnvelope } from './requests.ts'
import { type Message, packageDefinition, point } from './testing.ts'

const service = packageDefinition['svc.Service'] as ServiceDefinition
const encode = (method: string, request: Message): Buffer => service[method].requestSerialize(request)
const range = { start: '-5', end: '9223372036854775807' }

const QUERY = { measurement: 'm', range, tag_filters: [{ key: 'host', value: 'ü' }, { key: 'zone' }], field_columns: ['a', 'b'], limit: '7', format: 'ROWS' }
const MESSAGES: [method: string, request: Message, read: (bytes: Uint8Array) => unknown, expected: unknown][] = [
  [
    'Query',
    QUERY,
    queryPlan,
    {
      measurement: 'm',
      start: -5n,
      end: 2n ** 63n - 1n,
      matchers: [
        { tag: 'host', op: '=', value: 'ü' },
        { tag: 'zone', op: '=', value: '' },
      ],
      fields: ['a', 'b'],
      limit: 7,
      rows: true,
    },
  ],
  ['Query', { measurement: 'm' }, queryPlan, { measurement: 'm', matchers: [], limit: 0, rows: false }],
  ['Query', { measurement: 'm', range: {} }, queryPlan, { measurement: 'm', matchers: [], start: 0n, end: 0n, limit: 0, rows: false }],
  [
    'Delete',
    { measurement: 'm', tag_filters: [{ key: 'host', value: 'a' }], range },
    deleteRequest,
    { measurement: 'm', matchers: [{ tag: 'host', op: '=', value: 'a' }], start: -5n, end: 2n ** 63n - 1n },
  ],
  ['Delete', { measurement: 'm' }, deleteRequest, { measurement: 'm', matchers: [] }],
  ['GetSchema', { measurement: '漢字' }, measurementName, '漢字'],
  ['ExecuteSql', { query: 'SELECT 1' }, sqlText, 'SELECT 1'],
  [
    'Write',
    { points: [point('m', 1, {}, { v: 1 }), point('m', 2, {}, { v: 1 })], backfill: true },
    writeEnvelope,
    { points: 2, backfill: true, forwarded: false, dedupKey: '' },
  ],
  ['Write', { forwarded: true, dedup_key: 'k' }, writeEnvelope, { points: 0, backfill: false, forwarded: true, dedupKey: 'k' }],
  ['StreamWrite', { points: [point('m', 1, {}, { v: 1 })], dedup_key: 'k' }, streamEnvelope, { points: 1, dedupKey: 'k' }],
]

t.test('requests as the proto file has them', async (t) => {
  for (const [method, request, read, expected] of MESSAGES) t.strictSame(read(encode(method, request)), expected, method)
})

t.test('corrupted requests are read, or refused as such', async (t) => {
  const random = seeded(11)
  let refused = 0
  for (let round = 0; round < 4000; round++) {
    const [method, request, read] = MESSAGES[round % MESSAGES.length]
    const bytes = Uint8Array.from(encode(method, request))
    for (let i = 1 + Math.floor(random() * 3); i > 0; i--) bytes[Math.floor(random() * bytes.length)] = Math.floor(random() * 256)
    try {
      read(random() < 0.3 ? bytes.subarray(0, Math.floor(random() * bytes.length)) : bytes)
    } catch (error) {
      if (!(error instanceof SvcError) || error.code !== 'BAD_REQUEST') throw error
      refused++
    }
  }
  t.ok(refused > 1000)
  t.strictSame(queryPlan(encode('Query', QUERY)), MESSAGES[0][3], 'and leave nothing behind')
})
