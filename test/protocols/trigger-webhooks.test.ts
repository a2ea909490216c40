/** From a write to a webhook: the plugins triggers and webhooks together, against an HTTPS server. */
import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import type { IncomingHttpHeaders } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { boot, builtinPlugins } from 'svcdb/testkit'
import t from 'tap'
import { ROOT } from '../support/tree.ts'

const CERTIFICATES = join(ROOT, 'test/support/certificates')
const KEY = Buffer.alloc(24, 7)

t.test('a signal arrives as a signed CloudEvent', { skip: !builtinPlugins().includes('webhooks') && 'there is no plugin webhooks' }, async (t) => {
  const got: { headers: IncomingHttpHeaders; body: string }[] = []
  const [cert, key] = await Promise.all(['first.pem', 'first.key'].map((file) => readFile(join(CERTIFICATES, file))))
  const server = createServer({ cert, key }, async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    got.push({ headers: request.headers, body: Buffer.concat(chunks).toString() })
    response.end()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  // Keys of deliveries by the names that they have in [triggers].
  const triggers = { webhook_signing_secrets: [`whsec_${KEY.toString('base64')}`], webhook_allow_private_targets: true, webhook_timeout_secs: 5 }
  const node = await boot({
    plugins: ['line_protocol', 'webhooks', 'triggers'],
    storage: 'embedded',
    config: { triggers, webhooks: { ca_file: join(CERTIFICATES, 'ca.pem') } },
  })
  t.teardown(async () => {
    await node.stop()
    server.closeAllConnections()
    server.close()
  })
  const run = (query: string) => node.inject({ method: 'POST', url: '/api/v1/triggers', payload: { query } })
  t.match(await run("CREATE TRIGGER bad ON cpu WHEN usage > 90 DELIVER webhook('https://a:b@hooks.example/x')"), { statusCode: 400 })
  t.equal((await run(`CREATE TRIGGER hot ON cpu WHEN usage > 90 DELIVER webhook('https://localhost:${port}/x')`)).statusCode, 200)
  const time = BigInt(Date.now()) * 1_000_000n + 123n
  await node.inject({ method: 'POST', url: '/write', payload: `cpu,host=a usage=95 ${time}`, headers: { 'content-type': 'text/plain' } })
  for (let i = 0; i < 2400 && got.length === 0; i++) await sleep(25)
  t.equal(got.length, 1)
  const [{ headers, body }] = got
  const expected = createHmac('sha256', KEY).update(`${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`).digest('base64')
  t.equal(headers['webhook-signature'], `v1,${expected}`)
  const signals = (await node.inject('/api/v1/signals')).body
  t.ok(signals.includes(`"timestamp":${time}`))
  t.ok(body.includes(signals.slice(1, -1)), 'the data is the signal, digit by digit')
  const [{ event_id }] = JSON.parse(signals) as [{ event_id: string }]
  t.match(JSON.parse(body), { specversion: '1.0', id: event_id, source: 'svc:trigger/hot', type: 'io.svc.signal.fired', datacontenttype: 'application/json' })
  const secrets = await run('SHOW TRIGGERS')
  t.match(secrets.json(), { triggers: [{ delivery: [`webhook('https://localhost:${port}/x')`] }] })
})
