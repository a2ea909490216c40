/** For tests: processes of svc on one PostgreSQL, and who calls them. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { run } from 'svcdb/testkit'
import type { Test } from 'tap'
import { type RunningServer, runServer } from '../../test/support/server.ts'

const ADMIN = `svc_${'a'.repeat(43)}`
export const CONFIGURED = `svc_${'c'.repeat(43)}`
const LIMIT_MS = 20_000

export interface Answer {
  status: number
  // biome-ignore lint/suspicious/noExplicitAny: bodies of all routes
  body: any
}

export class Caller {
  readonly dataDir: string
  private readonly url: string
  private readonly file: string
  private readonly server: RunningServer
  private isUp = true

  constructor(server: RunningServer, file: string, dataDir: string) {
    this.server = server
    this.url = server.url
    this.file = file
    this.dataDir = dataDir
  }

  /** The command line, beside the node that runs. */
  async command(...argv: string[]): Promise<{ code: number; out: string; err: string }> {
    const said = { out: '', err: '' }
    const code = await run([...argv, '--config', this.file], {
      env: { SVC_DATA_DIR: this.dataDir },
      out: (text) => void (said.out += text),
      err: (text) => void (said.err += text),
      stopSignal: new Promise(() => {}),
    })
    return { code, ...said }
  }

  async stop(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    if (signal === 'SIGKILL' && this.isUp) process.kill(this.server.pid, signal)
    this.isUp = false
    await this.server.stop()
  }

  async ask(method: string, path: string, body?: unknown, token = ADMIN): Promise<Answer> {
    const headers = { authorization: `Bearer ${token}`, ...(typeof body === 'object' ? { 'content-type': 'application/json' } : {}) }
    const answer = await fetch(`${this.url}${path}`, {
      method,
      headers,
      body: body === undefined ? null : typeof body === 'string' ? body : JSON.stringify(body),
    })
    const text = await answer.text()
    return { status: answer.status, body: /^[{[]/.test(text) ? JSON.parse(text) : text }
  }

  /** Waits until it is so. How long is told: on a machine that does other things nothing else can be held to it. */
  async soon(t: Test, what: string, isSo: () => Promise<boolean>): Promise<void> {
    const since = performance.now()
    while (!(await isSo())) {
      if (performance.now() - since > LIMIT_MS) return void t.fail(`${what}: not in force`)
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
    t.pass(`${what}: in force`)
    t.comment(`${what}: after ${Math.round(performance.now() - since)} ms`)
  }
}

export async function startNode(t: Test, url: string, { keepData = false, dataDir }: { keepData?: boolean; dataDir?: string } = {}): Promise<Caller> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-nodes-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const file = join(folder, 'svc.toml')
  const keys = [
    ['admin', ADMIN, true],
    ['configured', CONFIGURED, false],
  ].map(([name, key, admin]) => `[[auth.api_keys]]\nname = "${name}"\nkey = "${key}"\nadmin = ${admin}\n`)
  await writeFile(
    file,
    `plugins = ["api_keys", "audit", "namespaces", "line_protocol", "native", "triggers", "rollups"]\n[namespaces]\nauto_create = false\n[triggers]\n${keys.join('')}[state]\nengine = "postgres"\nurl = "${url}"\nretry_secs = 1\n`,
  )
  const server = await runServer(file, { keepData, ...(dataDir === undefined ? {} : { env: { SVC_DATA_DIR: dataDir } }) })
  t.teardown(() => server.stop())
  return new Caller(server, file, dataDir ?? server.dataDir)
}
