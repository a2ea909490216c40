/** A server in the place of ClickHouse whose answers do not end, or are no answers of ClickHouse's: what waits for one ends, and holds little meanwhile. */
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { Client } from './client.ts'
import { sectionOf } from './config.ts'
import { encodeBlock } from './native/encode.ts'

const COLUMNS = [{ name: 'a', type: 'UInt8', data: new Uint8Array(3) }]
const BLOCK = Buffer.concat(encodeBlock(COLUMNS, 3))
const FAILED = { 'x-clickhouse-exception-code': '60' }

async function clientOf(t: Test, answer: (response: ServerResponse) => void): Promise<Client> {
  const server = createServer((request, response) => void request.resume().on('end', () => answer(response)))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const client = new Client(sectionOf({ clickhouse: { url, write_timeout_secs: 1 } }))
  t.teardown(async () => {
    await client.close()
    server.closeAllConnections()
    server.close()
  })
  return client
}

/** Writes now and then, so that the connection is never silent. */
function drip(response: ServerResponse, status: number, headers: Record<string, string>, part: Buffer): void {
  response.writeHead(status, headers)
  response.write(part)
  const timer = setInterval(() => response.write(part), 50)
  response.once('close', () => clearInterval(timer))
}

const drain = async (client: Client, signal?: AbortSignal): Promise<void> => {
  for await (const _ of client.blocks('SELECT 1', signal === undefined ? {} : { signal, timeoutMs: 0 }));
}
const ways: [string, string, (client: Client) => Promise<unknown>][] = [
  ['a read', 'QUERY_TIMEOUT', (client) => drain(client)],
  ['a change', 'WRITE_TIMEOUT', (client) => client.command('DROP TABLE x')],
  ['a write', 'WRITE_TIMEOUT', (client) => client.insert('x', COLUMNS, 3, 'token')],
]
const answers: [string, number, Record<string, string>, Buffer][] = [
  ['bytes that are no blocks', 200, {}, Buffer.from('x')],
  ['blocks', 200, {}, BLOCK],
  ['an error', 500, FAILED, Buffer.from('x')],
]

for (const [what, status, headers, part] of answers) {
  t.test(`${what} without an end`, async (t) => {
    const client = await clientOf(t, (response) => drip(response, status, headers, part))
    await Promise.all(ways.map(([, code, ask]) => t.rejects(ask(client) as Promise<void>, { code, message: /no answer within write_timeout_secs/ })))
  })

  t.test(`${what} without an end: a question ends with its signal, and all with the client`, async (t) => {
    const client = await clientOf(t, (response) => drip(response, status, headers, part))
    const cancel = new AbortController()
    const asked = drain(client, cancel.signal)
    setTimeout(() => cancel.abort(new Error('nobody asks any more')), 200)
    await t.rejects(asked, { message: 'nobody asks any more' })
    const begun = ways.map(([, , ask]) => ask(client) as Promise<void>)
    setTimeout(() => client.close(), 200)
    await Promise.all(begun.map((each) => t.rejects(each, { code: 'DATABASE_CLOSED' })))
  })
}

t.test('of an error no more is read than ClickHouse writes', async (t) => {
  let sent = 0
  const part = Buffer.from('Code: 1 '.repeat(8192))
  const client = await clientOf(t, (response) => {
    response.writeHead(500, FAILED)
    const more = (): void => {
      while (!response.destroyed && response.write(part)) sent += part.length
    }
    response.on('drain', more)
    more()
  })
  for (const [what, , ask] of ways) {
    sent = 0
    await t.rejects(ask(client) as Promise<void>, { code: 'OVERLOADED', message: /it is not reached/ }, what)
    t.ok(sent < 32 << 20, `${sent} bytes`)
  }
})
