/** The curl commands of READMEs and guides, run as they stand there, in their order, against a node that has what they speak of: each is answered by success; and so are the statements of the guide for imports. */
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { fences, section, tableRows } from '../support/markdown.ts'
import { runServer } from '../support/server.ts'
import { read } from '../support/tree.ts'

const sh = promisify(execFile)
const HOUR_SECS = 3600

const CONFIG = `plugins = ["native", "line_protocol", "sql", "promql", "exemplars", "export", "backup", "namespaces", "webhooks", "cdc", "triggers", "rollups", "connectors", "cluster", "analytics"]
[server]
http_addr = "127.0.0.1:0"
[database]
warm_up_ms = 0
soft_delete_ttl_secs = 3600
[triggers]
`

const FILES = [
  ...['analytics', 'rollups', 'triggers', 'operate'].map((name) => `docs/guides/${name}.md`),
  ...['backup', 'cluster', 'connectors', 'exemplars', 'export', 'line_protocol', 'namespaces', 'native', 'rollups', 'sql', 'triggers', 'webhooks'].map(
    (name) => `plugins/${name}/README.md`,
  ),
]

/** Of nodes, connectors and endpoints that are somebody's own; the answer says that there is none of that name. */
const THEIRS = /nodes\/3\/decommission|connectors\/mqtt-default\/|webhooks\/default\/triggers\/hot:1/

/** Two days of two measurements, every ten minutes, and one with a name that has to be percent-encoded. */
function seed(nowSecs: number): string {
  const lines = [`weather\\ station,city=basel temp=21.5 ${nowSecs}`]
  for (let i = 0; i < 48 * 6; i++)
    for (const host of ['a', 'db1', 'edge-1', 'edge-2'])
      lines.push(
        `cpu,host=${host} usage=${50 + 30 * Math.sin(i / 100)},load=${1 + Math.sin(i / 24)} ${nowSecs - i * 600}`,
        `mem,host=${host} used=${50 + (i % 7)},total=100 ${nowSecs - i * 600}`,
      )
  return lines.join('\n')
}

t.test('every curl command is answered by success', { timeout: 300_000 }, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-commands-'))
  const config = join(folder, 'svc.toml')
  writeFileSync(config, CONFIG)
  const server = await runServer(config)
  t.teardown(async () => {
    await server.stop()
    rmSync(folder, { recursive: true, force: true })
  })
  let ran = 0
  for (const file of FILES) {
    const nowSecs = Math.floor(Date.now() / 1000 / HOUR_SECS) * HOUR_SECS
    // What a page before has deleted is there again.
    t.equal((await fetch(`${server.url}/write?precision=s&backfill=true`, { method: 'POST', body: seed(nowSecs) })).status, 204)
    for (const { language, text, line } of fences(read(file))) {
      if (language !== 'sh' || !/\bcurl /.test(text)) continue
      const script = text
        .replaceAll(/(http:\/\/)?localhost:8086/g, server.url)
        .replaceAll(/\bcurl /g, `curl -sS -m 60 -o /dev/null -w '%{http_code} %{url_effective}\\n' `)
      const { stdout } = await sh('bash', ['-ec', script])
      for (const answer of stdout.trim().split('\n')) {
        ran++
        t.match(answer, THEIRS.test(answer) ? /^404 / : /^20[0-4] /, `${file}:${line}`)
      }
    }
  }
  const rows = tableRows(section(read('docs/guides/migrate.md'), 'Ask as before') ?? '')
  const statements = rows.flatMap(([, here]) => [...here.matchAll(/`((?:SELECT|SHOW|DESCRIBE) [^`]+)`/g)].map(([, query]) => query))
  t.ok(statements.length > 7)
  for (const query of statements) {
    const headers = { 'content-type': 'application/json' }
    const answer = await fetch(`${server.url}/api/v1/svc/sql`, { method: 'POST', headers, body: JSON.stringify({ query }) })
    const { row_count, error } = (await answer.json()) as { row_count?: number; error?: string }
    t.ok((row_count ?? 0) > 0, `${query}: ${error}`)
  }
  t.ok(ran > 30, `${ran} commands`)
})
