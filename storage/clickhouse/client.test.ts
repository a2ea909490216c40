/** What callers are told when ClickHouse refuses, is slow or is not there: the right code, and nothing about where it is. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { ERRORS, type ErrorCode, SvcError } from 'svcdb/lib/errors'
import t from 'tap'
import { Client } from './client.ts'
import { check, explain, sectionOf } from './config.ts'
import { encodeBlock } from './native/encode.ts'

/** Error codes of ClickHouse, and what they are to who reads, changes and writes. */
const TABLE: [number: number, what: string, read: ErrorCode, change: ErrorCode, write: ErrorCode][] = [
  [159, 'TIMEOUT_EXCEEDED', 'QUERY_TIMEOUT', 'WRITE_TIMEOUT', 'WRITE_TIMEOUT'],
  [160, 'TOO_SLOW', 'QUERY_TIMEOUT', 'WRITE_TIMEOUT', 'WRITE_TIMEOUT'],
  [202, 'TOO_MANY_SIMULTANEOUS_QUERIES', 'BACKPRESSURE', 'BACKPRESSURE', 'BACKPRESSURE'],
  [209, 'SOCKET_TIMEOUT', 'QUERY_TIMEOUT', 'WRITE_TIMEOUT', 'WRITE_TIMEOUT'],
  [210, 'NETWORK_ERROR', 'OVERLOADED', 'OVERLOADED', 'OVERLOADED'],
  [225, 'NO_ZOOKEEPER', 'OVERLOADED', 'OVERLOADED', 'OVERLOADED'],
  [241, 'MEMORY_LIMIT_EXCEEDED', 'OVERLOADED', 'OVERLOADED', 'OVERLOADED'],
  [242, 'TABLE_IS_READ_ONLY', 'OVERLOADED', 'OVERLOADED', 'OVERLOADED'],
  [243, 'NOT_ENOUGH_SPACE', 'STORAGE_FULL', 'STORAGE_FULL', 'STORAGE_FULL'],
  [252, 'TOO_MANY_PARTS', 'BACKPRESSURE', 'BACKPRESSURE', 'BACKPRESSURE'],
  [279, 'ALL_CONNECTION_TRIES_FAILED', 'OVERLOADED', 'OVERLOADED', 'OVERLOADED'],
  [285, 'TOO_FEW_LIVE_REPLICAS', 'OVERLOADED', 'OVERLOADED', 'OVERLOADED'],
  [286, 'UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE', 'OVERLOADED', 'OVERLOADED', 'OVERLOADED'],
  [289, 'REPLICA_IS_NOT_IN_QUORUM', 'OVERLOADED', 'OVERLOADED', 'OVERLOADED'],
  [307, 'TOO_MANY_BYTES', 'BAD_REQUEST', 'BAD_REQUEST', 'BAD_REQUEST'],
  [319, 'UNKNOWN_STATUS_OF_INSERT', 'OVERLOADED', 'OVERLOADED', 'OVERLOADED'],
  [999, 'KEEPER_EXCEPTION', 'OVERLOADED', 'OVERLOADED', 'OVERLOADED'],
  [60, 'UNKNOWN_TABLE', 'OVERLOADED', 'OVERLOADED', 'OVERLOADED'],
  [81, 'UNKNOWN_DATABASE', 'OVERLOADED', 'OVERLOADED', 'OVERLOADED'],
  [218, 'TABLE_IS_DROPPED', 'OVERLOADED', 'OVERLOADED', 'OVERLOADED'],
  [173, 'CANNOT_ALLOCATE_MEMORY', 'OVERLOADED', 'OVERLOADED', 'OVERLOADED'],
  [192, 'UNKNOWN_USER', 'OVERLOADED', 'OVERLOADED', 'OVERLOADED'],
  [193, 'WRONG_PASSWORD', 'OVERLOADED', 'OVERLOADED', 'OVERLOADED'],
  [194, 'REQUIRED_PASSWORD', 'OVERLOADED', 'OVERLOADED', 'OVERLOADED'],
  [516, 'AUTHENTICATION_FAILED', 'OVERLOADED', 'OVERLOADED', 'OVERLOADED'],
  [497, 'ACCESS_DENIED', 'OVERLOADED', 'OVERLOADED', 'OVERLOADED'],
  [201, 'QUOTA_EXCEEDED', 'OVERLOADED', 'OVERLOADED', 'OVERLOADED'],
  [236, 'ABORTED', 'OVERLOADED', 'OVERLOADED', 'OVERLOADED'],
  [254, 'NO_ACTIVE_REPLICAS', 'OVERLOADED', 'OVERLOADED', 'OVERLOADED'],
  [369, 'ALL_REPLICAS_ARE_STALE', 'OVERLOADED', 'OVERLOADED', 'OVERLOADED'],
  [394, 'QUERY_WAS_CANCELLED', 'OVERLOADED', 'OVERLOADED', 'OVERLOADED'],
  [439, 'CANNOT_SCHEDULE_TASK', 'OVERLOADED', 'OVERLOADED', 'OVERLOADED'],
  [733, 'TABLE_IS_BEING_RESTARTED', 'OVERLOADED', 'OVERLOADED', 'OVERLOADED'],
  [745, 'SERVER_OVERLOADED', 'OVERLOADED', 'OVERLOADED', 'OVERLOADED'],
  [53, 'TYPE_MISMATCH', 'DATABASE_ERROR', 'DATABASE_ERROR', 'DATABASE_ERROR'],
]
/** What tells who asks to come again, or that time is over. */
const COME_AGAIN = new Set<ErrorCode>(['OVERLOADED', 'BACKPRESSURE', 'QUERY_TIMEOUT', 'WRITE_TIMEOUT'])

const failed = async (work: Promise<unknown>): Promise<SvcError> => {
  const error = await work.then(
    () => undefined,
    (error: unknown) => error,
  )
  if (!(error instanceof SvcError)) throw new Error(`no refusal: ${error}`)
  return error
}
const drain = async (client: Client, table: string): Promise<void> => {
  for await (const _ of client.blocks(`SELECT 1 FROM ${table}`));
}
const ways = (client: Client, table = 'x0'): [string, () => Promise<unknown>][] => [
  ['read', () => drain(client, table)],
  ['change', () => client.command(`DROP TABLE ${table}`)],
  ['write', () => client.insert(table, [{ name: 'a', type: 'UInt8', data: new Uint8Array(1) }], 1, 'token')],
]

t.test('errors of ClickHouse', async (t) => {
  // The number of an error is in the table's name.
  const server = createServer((from, to) => {
    const parts = [decodeURIComponent(from.url ?? '')]
    from.on('data', (part) => parts.push(String(part)))
    from.on('end', () => {
      const code = /x(\d+)/.exec(parts.join(''))?.[1] ?? '0'
      to.writeHead(500, { 'x-clickhouse-exception-code': code })
      to.end(`Code: ${code}. DB::Exception: Something at (10.1.2.3:9000, local address: 10.1.2.4:1). (SOME_NAME) (version 26.7)\n`)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const client = new Client(sectionOf({ clickhouse: { url, write_timeout_secs: 5 } }))
  t.teardown(async () => {
    await client.close()
    server.close()
  })
  const asked = TABLE.map(([number]) => ways(client, `x${number}`).map(async ([verb, ask]) => ({ verb, error: await failed(ask()) })))
  for (const [at, [number, what, ...expected]] of TABLE.entries()) {
    for (const [i, { verb, error }] of (await Promise.all(asked[at])).entries()) {
      t.equal(error.code, expected[i], `${what}: ${verb}`)
      t.ok(error.message.startsWith(`cannot ${verb} in ClickHouse: `) && error.message.endsWith(`(code ${number})`), error.message)
      if (COME_AGAIN.has(error.code))
        t.ok(
          [503, 504].includes((ERRORS as Record<string, { http: number }>)[error.code].http),
          `${what}: ${(ERRORS as Record<string, { http: number }>)[error.code].http}`,
        )
      if ([209, 210, 225, 279, 60, 81, 218, 192, 193, 194, 516, 497, 243].includes(number)) t.notOk(error.message.includes('10.1.2'), error.message)
    }
  }
})

t.test('a disk that was full before ClickHouse looked is told as such', async (t) => {
  const text = 'Code: 75. DB::Exception: Cannot write to file /var/lib/x, errno: 28, strerror: No space left on device. (CANNOT_WRITE_TO_FILE_DESCRIPTOR)'
  const server = createServer((from, to) => {
    from.resume().on('end', () => to.writeHead(500, { 'x-clickhouse-exception-code': '75' }).end(text))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const client = new Client(sectionOf({ clickhouse: { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` } }))
  t.teardown(async () => {
    await client.close()
    server.close()
  })
  for (const [verb, ask] of ways(client)) {
    const error = await failed(ask())
    t.match(error, { code: 'STORAGE_FULL', message: `cannot ${verb} in ClickHouse: its disk is full; free space there (code 75)` })
  }
})

t.test('a server that is not reached: who asks is not told where it would be, the log is', async (t) => {
  const logged: unknown[] = []
  const client = new Client(sectionOf({ clickhouse: { url: 'http://127.0.0.1:9', write_timeout_secs: 1 } }), undefined, {
    unreached: (told) => logged.push(told),
  })
  t.teardown(() => client.close())
  for (const [verb, ask] of ways(client)) {
    const error = await failed(ask())
    t.equal(error.code, 'OVERLOADED')
    t.equal(error.message, `cannot ${verb} in ClickHouse: it is not reached (ECONNREFUSED); see that it runs, its address is in the log`)
  }
  t.match(logged, [{ url: 'http://127.0.0.1:9', err: { code: 'ECONNREFUSED' } }], 'once')
})

t.test('a URL has no user and no password: they are keys, and the password is not printed', async (t) => {
  for (const url of ['http://svc:secret@ch:8123', 'https://secret@ch', 'clickhouse://svc:secret@ch:9000', 'svc:secret@ch:8123', 'http://svc:secret@ch:81234']) {
    const config = { clickhouse: { url } }
    t.throws(() => check(config), { code: 'CONFIG_ERROR', message: /^cannot use \[database\.clickhouse\] url: / })
    try {
      check(config)
    } catch (error) {
      t.notOk((error as Error).message.includes('secret'), (error as Error).message)
    }
    t.notOk(explain(config).join().includes('secret'))
  }
  check({ clickhouse: { url: 'http://ch:8123' } })
  t.match(explain({ clickhouse: { url: 'http://ch:8123' } })[0], /at http:\/\/ch:8123, /)
})

t.test('a statement that fails when its answer has begun: it is said why, whatever stands around it', async (t) => {
  const text = 'Code: 159. DB::Exception: Timeout exceeded: elapsed 3 seconds, maximum: 2. (TIMEOUT_EXCEEDED) (version 26.7)'
  const block = Buffer.concat(encodeBlock([{ name: 'a', type: 'UInt8', data: new Uint8Array(3) }], 3))
  const ends: [string, Buffer[], cut: boolean][] = [
    ['in a frame', [Buffer.from(`\r\n__exception__\r\nabcdefghijklmnop\r\n${text}\n${text.length + 1} abcdefghijklmnop\r\n__exception__\r\n`)], false],
    ['bare', [Buffer.from(`${text}\n`)], false],
    ['bare, and the connection ends', [Buffer.from(`${text}\n`)], true],
    [
      'within a block, in parts',
      [block.subarray(0, 4), Buffer.from(`\r\n__exception__\r\nabcdefghijklmnop\r\n${text.slice(0, 30)}`), Buffer.from(text.slice(30))],
      false,
    ],
  ]
  let [, parts, cut] = ends[0]
  const server = createServer((from, to) => {
    from.resume().on('end', async () => {
      to.writeHead(200)
      for (const part of [block, ...parts]) {
        to.write(part)
        await new Promise((resolve) => setTimeout(resolve, 20))
      }
      if (cut) to.destroy()
      else to.end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const logged: unknown[] = []
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const client = new Client(sectionOf({ clickhouse: { url, write_timeout_secs: 5 } }), undefined, { unreached: (told) => logged.push(told) })
  t.teardown(async () => {
    await client.close()
    server.close()
  })
  for (const [what, ...end] of ends) {
    ;[parts, cut] = end
    const error = await failed(drain(client, 'x'))
    t.equal(error.code, 'QUERY_TIMEOUT', what)
    t.match(error.message, /^cannot read in ClickHouse: Timeout exceeded.*\(code 159\)$/)
    const meaning = (code: string) => new SvcError('SQL_ERROR', `own ${code}`)
    const asked = async () => {
      for await (const _ of client.blocks('SELECT 1', { meaning }));
    }
    t.match(await failed(asked()), { code: 'SQL_ERROR', message: 'own 159' }, 'and to who asks in SQL')
  }
  t.same(logged, [], 'the server was reached')
  ;[parts, cut] = [[], true]
  t.match(await failed(drain(client, 'x')), { code: 'OVERLOADED', message: /it is not reached/ }, 'one that is cut is no whole answer')
})
