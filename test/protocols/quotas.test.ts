/** Quotas bind whichever protocol points come in by, and a batch that is refused in part loses nothing else. */

import { boot } from 'svcdb/testkit'
import t from 'tap'
import { flightSql, grpc } from './grpc-protocols.ts'
import { lineProtocol, native, otlp, remoteWrite } from './http-protocols.ts'
import type { Answer, Protocol, Sample } from './protocol.ts'

/** Senders of these repeat what is answered 429: what would be refused again is 400. */
const REPEATING = ['remote_write 1.0', 'remote_write 2.0', 'otlp']
const PROTOCOLS: Protocol[] = [native, lineProtocol, remoteWrite(1), remoteWrite(2), otlp, grpc, flightSql]
const PLUGINS = ['native', 'line_protocol', 'remote_write', 'otlp', 'grpc', 'flight_sql', 'sql', 'promql', 'namespaces']
const now = Math.floor(Date.now() / 1000) * 1000
const sample = (host: string, ms = now): Sample => ({ host, ms, value: 1 })
const config = { grpc: { addr: '127.0.0.1:0' }, flight_sql: { addr: '127.0.0.1:0' }, namespaces: { storage_refresh_secs: 0 } }

t.test('series, measurements, storage and rate at every protocol', async (t) => {
  for (const protocol of PROTOCOLS) {
    await t.test(protocol.name, async (t) => {
      const node = await boot({ plugins: PLUGINS, config: config as never, storage: 'embedded' })
      t.teardown(() => node.stop())
      const quota = async (payload: object) => {
        const answer = await node.inject({ method: 'PUT', url: '/api/v1/namespaces/default/quota', payload })
        if (answer.statusCode !== 200) throw new Error(answer.body)
      }
      const refused = (answer: Answer, text: RegExp) => {
        t.notOk(answer.ok)
        t.match(answer.text, text)
      }
      await quota({ max_series: 2, max_measurements: 1 })
      t.ok((await protocol.write(node, 'm', [sample('a')])).ok)
      refused(await protocol.write(node, 'm', [sample('b'), sample('c'), sample('a', now + 1)]), /namespace "default".*max_series_count of 2/)
      t.equal((await node.storage.usage('')).series, 2)
      const [{ n }] = (await rows(node, 'SELECT count(*) AS n FROM m')) as { n: number }[]
      t.equal(Number(n), 3, 'what fits is there')
      const whole = await protocol.write(node, 'm', [sample('d')])
      refused(whole, /max_series_count of 2/)
      if (whole.code !== undefined) t.equal(whole.code, REPEATING.includes(protocol.name) ? 'PARTIAL_WRITE' : 'RATE_LIMITED')
      refused(await protocol.write(node, 'other', [sample('a')]), /max_measurements of 1/)
      t.ok((await protocol.write(node, 'm', [sample('a', now + 2), sample('b', now + 2)])).ok, 'those there are go on')

      await quota({ max_storage_bytes: 1 })
      const full = await protocol.write(node, 'm', [sample('a', now + 3)])
      refused(full, /max_storage_bytes of 1/)
      if (full.code !== undefined) t.equal(full.code, 'RATE_LIMITED')
      await quota({ max_storage_bytes: 0, max_ingestion_rate: 1 })
      t.ok(
        (
          await protocol.write(
            node,
            'm',
            Array.from({ length: 100 }, (_, i) => sample('a', now + 4 + i)),
          )
        ).ok,
      )
      refused(await protocol.write(node, 'm', [sample('a', now + 500)]), /max_ingestion_rate of 1 points a second/)
      t.equal(Number(((await rows(node, 'SELECT count(*) AS n FROM m')) as { n: number }[])[0].n), 105)
    })
  }
})

async function rows(node: Awaited<ReturnType<typeof boot>>, query: string): Promise<unknown[]> {
  const { columns, rows } = (await node.inject({ method: 'POST', url: '/api/v1/svc/sql', payload: { query } })).json()
  return rows.map((row: unknown[]) => Object.fromEntries(columns.map((column: { name: string }, i: number) => [column.name, row[i]])))
}
