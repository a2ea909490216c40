/** A node with all that the dashboards show, and something going on in all of it: protocols, queries, errors, refusals, flushes, merges, backups, webhooks. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { boot, builtinPlugins, loadPlugin, type TestNode } from 'svcdb/testkit'
import { MINIMAL_KEY, minimalConfig } from '../../scripts/minimal-config.ts'
import { flightClient, flightSql, grpc, grpcClient } from '../protocols/grpc-protocols.ts'
import { lineProtocol, native, otlp, remoteWrite } from '../protocols/http-protocols.ts'
import { agentsConfig, workOfAgents } from './agents.ts'
import { AUTOMATION, startAutomation } from './automation.ts'
import { parseExposition, REMOTE_WRITE, requestOf } from './scrape.ts'

export const HEADERS = { authorization: `Bearer ${MINIMAL_KEY}` }
const PROTOCOLS = [native, lineProtocol, remoteWrite(1), otlp, grpc, flightSql]
/** mTLS needs TLS on every listener, and its metrics are on no dashboard. */
const LEFT_OUT = ['mtls']

export interface BusyNode {
  /** With the key in each request. */
  node: TestNode
  /** A round of work, of which every part of the dashboards shows something. */
  work(round: number): Promise<void>
  /** Writes what /metrics says now into the node itself, as of now. @returns the time, in milliseconds since the Unix epoch. */
  scrape(): Promise<number>
  stop(): Promise<void>
}

export async function startBusyNode(): Promise<BusyNode> {
  const ids = builtinPlugins().filter((id) => !LEFT_OUT.includes(id))
  const { config: least, remove } = await minimalConfig(ids)
  const folder = await mkdtemp(join(tmpdir(), 'svc-busy-'))
  const paths = (least.auth.exempt_paths as string[] | undefined) ?? ['/health', '/ready']
  const config = {
    ...least,
    ...AUTOMATION,
    ...(await agentsConfig(folder)),
    // The gRPC clients of other tests have no keys.
    auth: { ...least.auth, exempt_paths: [...paths, '/svc.Service/*', '/arrow.flight.protocol.FlightService/*'] },
    server: { backup_root: folder },
    database: { compaction_fan_in: 2, maintenance_interval_secs: 1, scrub_interval_secs: 3600 },
    rate_limit: { requests_per_second: 100_000, burst_size: 100_000, trust_proxy_headers: true, max_auth_failures: 3 },
    cold_archive: { remote_url: join(folder, 'archive'), cold_after_secs: 86_400, interval_secs: 1 },
  }
  const plugins = await Promise.all(ids.map((id) => loadPlugin(id, '.')))
  const running = await boot({ plugins, storage: 'embedded', config })
  const node: TestNode = Object.create(running, {
    inject: {
      value: (request: string | { url: string; headers?: object }) => {
        const given = typeof request === 'string' ? { url: request } : request
        return running.inject({ ...given, headers: { ...HEADERS, ...given.headers } } as never)
      },
    },
  })
  const automation = await startAutomation(node, HEADERS)
  return {
    node,
    async work(round) {
      await work(node, round)
      await workOfAgents(node, round)
      await automation.work()
    },
    async scrape() {
      const { body } = await node.inject('/metrics')
      const ms = Date.now()
      const payload = requestOf(parseExposition(body), { job: 'svc', instance: 'busy:8086' }, ms)
      const answer = await node.inject({ method: 'POST', url: '/api/v1/prom/write', headers: REMOTE_WRITE, payload })
      if (answer.statusCode !== 204) throw new Error(`the metrics of the node are refused by it: ${answer.body}`)
      return ms
    },
    async stop() {
      await automation.stop()
      await running.stop()
      await remove()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

async function work(node: TestNode, round: number): Promise<void> {
  const post = (url: string, payload: object | string, headers: Record<string, string> = {}) => node.inject({ method: 'POST', url, payload, headers })
  for (const protocol of PROTOCOLS) {
    const samples = Array.from({ length: 50 }, (_, i) => ({ host: `h${i % 5}`, ms: Date.now() - i, value: round + Math.sin(i) }))
    const answer = await protocol.write(node, 'load', samples)
    if (!answer.ok) throw new Error(`${protocol.name}: ${answer.text}`)
  }
  await native.write(node, 'load', [{ host: 'old', ms: Date.UTC(2024, 0, 1 + round), value: 1 }], true)
  await post('/write', 'load,host=a value=text', { 'content-type': 'text/plain' })
  await post('/api/v1/svc/sql', { query: 'SELECT host, avg(value) FROM load GROUP BY host' })
  await post('/api/v1/svc/sql', { query: 'SELECT nothing FROM nowhere' })
  await post('/api/v1/svc/query', { measurement: 'load', limit: 3 })
  await node.inject('/api/v1/query?query=sum(load)')
  await node.inject('/api/v1/query?query=sum(')
  await node.inject('/api/v1/nothing')
  await grpcClient(node).call('ExecuteSql', { query: 'SELECT count(*) FROM load' })
  await flightClient(node).sql('SELECT count(*) AS n FROM load')
  await node.storage.flush()
  await post('/api/v1/admin/backup', { target_dir: `round-${round}` })
  await post('/api/v1/export/parquet', { measurement: 'load', output_path: `round-${round}` })
  // Somebody who tries keys, and a token, from an address of his own: 401, then shut out.
  const wrong = { authorization: 'Bearer svc_wrong', 'x-forwarded-for': `192.0.2.${round + 1}` }
  for (let i = 0; i < 5; i++) await node.inject({ url: '/api/v1/measurements', headers: wrong })
  const token = ['{"alg":"HS256","typ":"JWT"}', '{"sub":"x"}', 'signature'].map((part) => Buffer.from(part).toString('base64url')).join('.')
  await node.inject({ url: '/api/v1/measurements', headers: { authorization: `Bearer ${token}` } })
}
