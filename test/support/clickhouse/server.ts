/**
 * Enough of ClickHouse's HTTP interface for `@clickhouse/client`, over chdb: ClickHouse in this process. Run as a program it prints the port that it listens on.
 * One statement runs at a time, and an answer is whole before it is sent. Replication, quorums and ON CLUSTER are not to be had here: with a cluster's name,
 * statements that need them are taken without them, and the rest of the cluster's form (tables over shards, `clusterAllReplicas`) runs, on a shard of two
 * replicas of which the second is always away.
 */
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { rmSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'

interface Session {
  queryAsync(query: string, options: { format: string }): Promise<{ bytes(): Uint8Array }>
  queryBindAsync(query: string, params: object, options: { format: string }): Promise<{ bytes(): Uint8Array }>
}

const INSERT = /^\s*(INSERT INTO [\s\S]*?)(\s+SETTINGS [\s\S]*?)?\s+FORMAT (\w+)\s*$/
const PARAM = 'param_'

export async function serve(packages: string, folder: string, cluster = ''): Promise<{ port: number }> {
  const { Session: Opened } = createRequire(join(packages, 'noop.js'))('chdb') as { Session: new (path: string, options?: object) => Session }
  const config = join(folder, 'config.xml')
  writeFileSync(config, `<clickhouse>${diskConfig(folder)}${cluster === '' ? '' : clusterConfig(cluster)}</clickhouse>`)
  const chdb = new Opened(join(folder, 'data'), { connectionArgs: [`--config-file=${config}`] })
  const session: Session = {
    queryAsync: (query, options) => chdb.queryAsync(cluster === '' ? query : unreplicated(query), options),
    queryBindAsync: (query, params, options) => chdb.queryBindAsync(query, params, options),
  }
  let turn: Promise<unknown> = Promise.resolve()
  const server = createServer((request, response) => {
    bodyOf(request)
      .then((body) => {
        const done = turn.then(() => answer(session, folder, new URL(request.url ?? '/', 'http://localhost'), body))
        turn = done.catch(() => {})
        return done
      })
      .then(
        (bytes) => send(response, 200, bytes),
        (error: Error) => refuse(response, error.message),
      )
  })
  server.keepAliveTimeout = 60_000
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return server.address() as { port: number }
}

/** It is the server itself whose port is the first; nobody listens on the second. */
function clusterConfig(cluster: string): string {
  const replica = (port: number): string => `<replica><host>127.0.0.1</host><port>${port}</port></replica>`
  const shard = `<shard><internal_replication>true</internal_replication>${replica(9000)}${replica(1)}</shard>`
  return `<tcp_port>9000</tcp_port><remote_servers><${cluster}>${shard}</${cluster}></remote_servers>`
}

/** Disks for backups and for old rows, and a policy with the latter. */
function diskConfig(folder: string): string {
  const disk = (name: string): string => `<${name}><type>local</type><path>${join(folder, name)}/</path></${name}>`
  const volumes = '<default><disk>default</disk></default><cold><disk>cold</disk></cold>'
  const policies = `<policies><tiers><volumes>${volumes}</volumes></tiers></policies>`
  const storage = `<storage_configuration><disks>${disk('backups')}${disk('cold')}</disks>${policies}</storage_configuration>`
  return `${storage}<backups><allowed_disk>backups</allowed_disk></backups>`
}

function unreplicated(query: string): string {
  return query
    .replace(/^SYSTEM SYNC REPLICA .*$/, 'SELECT 1')
    .replace(/ ON CLUSTER '[^']*'/, '')
    .replace(/ENGINE = Replicated(\w+)\('[^']*', '[^']*'(?:, )?/, 'ENGINE = $1(')
    .replace(/SETTINGS replicated_deduplication_window = (\d+).*$/, 'SETTINGS non_replicated_deduplication_window = $1')
}

async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = []
  for await (const part of request) parts.push(part as Buffer)
  const body = Buffer.concat(parts)
  return request.headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body
}

async function answer(session: Session, folder: string, url: URL, body: Buffer): Promise<Uint8Array> {
  if (url.pathname === '/ping') return Buffer.from('Ok.\n')
  const given = url.searchParams.get('query')
  if (given === null) return run(session, body.toString(), url.searchParams)
  const [, insert, settings = '', format] = INSERT.exec(given) ?? []
  if (insert === undefined) return run(session, given, url.searchParams)
  const file = join(folder, `${randomUUID()}.block`)
  writeFileSync(file, body)
  try {
    return await run(session, `${insert} FROM INFILE '${file}'${settings} FORMAT ${format}`, url.searchParams)
  } finally {
    rmSync(file)
  }
}

async function run(session: Session, query: string, given: URLSearchParams): Promise<Uint8Array> {
  const params = Object.fromEntries([...given].filter(([name]) => name.startsWith(PARAM)).map(([name, value]) => [name.slice(PARAM.length), plain(value)]))
  const format = { format: 'TabSeparated' }
  const result = Object.keys(params).length === 0 ? await session.queryAsync(query, format) : await session.queryBindAsync(query, params, format)
  return Uint8Array.from(result.bytes())
}

/** Parameters come escaped as in TabSeparated. */
function plain(value: string): string {
  const named: Record<string, string> = { t: '\t', n: '\n', r: '\r', b: '\b', f: '\f', 0: '\0' }
  return value.replace(/\\(.)/gs, (_, mark: string) => named[mark] ?? mark)
}

function send(response: ServerResponse, status: number, body: Uint8Array): void {
  response.writeHead(status, { 'content-type': 'application/octet-stream', 'content-length': body.length }).end(body)
}

function refuse(response: ServerResponse, message: string): void {
  const text = message.slice(Math.max(0, message.indexOf('Code:')))
  const code = /Code: (\d+)/.exec(text)?.[1] ?? '1002'
  response.setHeader('x-clickhouse-exception-code', code)
  send(response, 500, Buffer.from(text))
}

if (import.meta.main) {
  const [packages, folder, cluster] = process.argv.slice(2)
  const { port } = await serve(packages, folder, cluster)
  process.stdout.write(`${port}\n`)
  // Ends with who started it.
  process.stdin.on('end', () => process.exit()).resume()
}
