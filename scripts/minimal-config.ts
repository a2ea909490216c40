/** The least that plugins need in a config to start: for the references, which are taken from running nodes, and for tests that run every plugin. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

type Tree = Record<string, Record<string, unknown>>

const CERTIFICATES = join(import.meta.dirname, '../test/support/certificates')
/** A key that opens nothing but the node of a test. */
export const MINIMAL_KEY = `svc_${'k'.repeat(43)}`

/** What a plugin needs beside it to start, where any of several would do. */
export const COMPANIONS: Readonly<Record<string, readonly string[]>> = { cedar: ['api_keys'], kafka: ['line_protocol'], mqtt: ['native'] }

export interface MinimalConfig {
  config: Tree
  /** Takes its files away. */
  remove(): Promise<void>
}

/** For a node with these plugins, ids of this package. Every path is exempt that the caller names. */
export async function minimalConfig(ids: readonly string[], exempt: readonly string[] = []): Promise<MinimalConfig> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-least-'))
  const config: Tree = {}
  const auth: Record<string, unknown> = exempt.length === 0 ? {} : { exempt_paths: ['/health', '/ready', ...exempt] }
  if (ids.includes('api_keys')) auth.api_keys = [{ name: 'least', key: MINIMAL_KEY, admin: true, namespaces: ['*'] }]
  if (ids.includes('jwt')) auth.jwt = { secret: 'a secret that is longer than thirty-two bytes' }
  if (ids.includes('mtls')) {
    auth.mtls = { clients: [{ name: 'client', namespaces: ['default'] }] }
    config.tls = {
      cert: join(CERTIFICATES, 'first.pem'),
      key: join(CERTIFICATES, 'first.key'),
      client_ca: join(CERTIFICATES, 'ca.pem'),
      client_auth: 'optional',
    }
  }
  if (ids.includes('cedar')) {
    await writeFile(join(folder, 'all.cedar'), 'permit (principal, action, resource);\n')
    config.authorization = { policy_dir: folder }
  }
  // Beside the data where there is a database; a node of this plugin alone has none.
  if (ids.includes('audit')) config.audit = { path: join(folder, 'audit.jsonl') }
  if (ids.includes('triggers')) config.triggers = {}
  // Nothing is sent.
  if (ids.includes('tracing')) config.tracing = { endpoint: 'http://127.0.0.1:1', sampling: 'always_off', always_sample_errors: false }
  if (ids.includes('agent_plane')) config.agent_plane = {}
  if (ids.includes('operator_api')) {
    await writeFile(join(folder, 'tokens.json'), JSON.stringify([{ token: MINIMAL_KEY, actor: 'least', roles: ['admin'] }]))
    await writeFile(join(folder, 'plane.cedar'), 'permit (principal, action, resource);\n')
    config.operator_api = { tokens_file: join(folder, 'tokens.json'), policy: join(folder, 'plane.cedar') }
  }
  // Nobody listens there.
  if (ids.includes('mqtt')) config.mqtt = { broker: '127.0.0.1', port: 1, topics: ['t'] }
  if (ids.includes('kafka')) config.kafka = { brokers: '127.0.0.1:1', topics: ['t'] }
  if (ids.includes('catalog_auth')) config.catalog_auth = { audit_sink: 'file', audit_path: join(folder, 'catalog.jsonl') }
  // Several nodes of tests may run at one time.
  for (const id of ['grpc', 'flight_sql', 'otlp_grpc']) if (ids.includes(id)) config[id] = { addr: '127.0.0.1:0' }
  if (Object.keys(auth).length > 0) config.auth = auth
  return { config, remove: () => rm(folder, { recursive: true, force: true }) }
}
