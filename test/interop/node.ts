/** A server for clients to write to, and what it holds afterwards. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { type RunningServer, runServer } from '../support/server.ts'

export interface Row {
  timestamp: number
  tags: Record<string, string>
  fields: Record<string, unknown>
}

export interface Node extends RunningServer {
  folder: string
  /** The next `left` writes fail with the code. */
  fail(code: string, left: number): Promise<void>
  /** How many writes have failed since. */
  failed(): Promise<number>
  rows(measurement: string): Promise<Row[]>
  /** Waits until the measurement has that many rows. @throws Error with the server's output. */
  arrived(measurement: string, count: number, limitMs?: number): Promise<Row[]>
}

export interface NodeOptions {
  maxBodySize?: number
  /** Besides `native` and the one that fails on request. */
  plugins?: string[]
  /** More of the configuration: whole sections. */
  sections?: string
  logLevel?: string
  /** Is left as it is when the node stops; default one of its own. */
  dataDir?: string
}

export async function startNode({
  maxBodySize = 10_485_760,
  plugins = ['line_protocol'],
  sections = '',
  logLevel = 'debug',
  dataDir,
}: NodeOptions = {}): Promise<Node> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-interop-'))
  const all = JSON.stringify(['native', ...plugins, join(import.meta.dirname, 'faults.ts')])
  const config = `plugins = ${all}\n[server]\nlog_level = "${logLevel}"\nmax_body_size = ${maxBodySize}\n${sections}`
  await writeFile(join(folder, 'svc.toml'), config)
  const server = await runServer(join(folder, 'svc.toml'), dataDir === undefined ? {} : { env: { SVC_DATA_DIR: dataDir } })
  const rows = async (measurement: string): Promise<Row[]> => {
    const headers = { 'content-type': 'application/json' }
    const answer = await fetch(`${server.url}/api/v1/svc/query`, { method: 'POST', headers, body: JSON.stringify({ measurement }) })
    return answer.status === 404 ? [] : ((await answer.json()) as Row[])
  }
  return {
    ...server,
    folder,
    async fail(code, left) {
      await fetch(`${server.url}/faults`, { method: 'PUT', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ code, left }) })
    },
    failed: async () => ((await (await fetch(`${server.url}/faults`)).json()) as { met: number }).met,
    rows,
    async arrived(measurement, count, limitMs = 20_000) {
      const end = Date.now() + limitMs
      while (true) {
        const found = await rows(measurement)
        if (found.length >= count) return found
        if (Date.now() > end) throw new Error(`${found.length} of ${count} rows of ${measurement} arrived:\n${server.output()}`)
        await setTimeout(100)
      }
    },
    async stop() {
      const code = await server.stop()
      await rm(folder, { recursive: true, force: true })
      return code
    },
  }
}
