/** Answers that their clients do not read, through a real server: by its own figures. */
import { once } from 'node:events'
import { connect } from 'node:net'
import { boot } from 'svcdb/testkit'
import t from 'tap'
import line from '../../plugins/line_protocol/index.ts'
import sql from '../../plugins/sql/index.ts'
import { until } from '../support/until.ts'

const MIB = 1_048_576
const ROWS = 20_000
const CLIENTS = 8
/** Sent ahead by each: none is begun before the answer to the one before is taken. */
const AHEAD = 5

t.test('clients that read nothing do not take all memory, and others are answered', async (t) => {
  const node = await boot({ plugins: [sql, line], storage: 'embedded', config: { server: { max_answer_memory: 16 * MIB } } })
  t.teardown(() => node.stop())
  const now = BigInt(Date.now()) * 1_000_000n
  const lines = Array.from({ length: ROWS }, (_, i) => `cpu,host=h${i % 3} v=${i},note="${String(i).padStart(400, 'x')}" ${now - BigInt(i)}`)
  const written = await node.inject({ method: 'POST', url: '/write', payload: lines.join('\n'), headers: { 'content-type': 'text/plain' } })
  t.equal(written.statusCode, 204, written.body)
  const metric = async (name: string): Promise<number> => Number(new RegExp(`^svc_${name} (\\S+)$`, 'm').exec((await node.inject('/metrics')).body)?.[1])
  const body = JSON.stringify({ query: 'SELECT _time, host, v, note FROM cpu' })
  const request = `POST /api/v1/svc/sql HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`

  const clients = Array.from({ length: CLIENTS }, () => connect(Number(new URL(node.url).port), '127.0.0.1').on('error', () => {}))
  t.teardown(() => {
    for (const client of clients) client.destroy()
  })
  for (const client of clients) {
    await once(client, 'connect')
    client.pause()
    client.write(request.repeat(AHEAD))
  }
  await until('a connection is closed', async () => (await metric('http_answers_cut_total')) > 0)
  await until('what was held is given back', async () => (await metric('http_answer_bytes')) <= 16 * MIB)
  t.ok((await metric('http_answers_cut_total')) < CLIENTS, 'not all')
  for (const client of clients) client.destroy()

  const answer = await node.inject({ method: 'POST', url: '/api/v1/svc/sql', payload: body, headers: { 'content-type': 'application/json' } })
  t.equal(answer.json().row_count, ROWS)
})
