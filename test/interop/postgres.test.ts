/** PostgreSQL as the state store: tests of plugins over it, and the server and PostgreSQL killed while they work. SVC_KILLS sets how often (default 12). */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { NO_POSTGRES, postgresBin, startPostgres } from '../support/postgres.ts'
import { type RunningServer, runServer } from '../support/server.ts'
import { ROOT } from '../support/tree.ts'

const skip = postgresBin() === undefined ? NO_POSTGRES : false
const KILLS = Number(process.env.SVC_KILLS ?? 12)

/** What they keep, they keep there. */
const FILES = [
  'plugins/agent_plane/store/store.test.ts',
  'plugins/agent_plane/agents/agents.test.ts',
  'plugins/agent_plane/cases/cases.test.ts',
  'plugins/agent_plane/halts/halts.test.ts',
  'plugins/agent_plane/push/push.test.ts',
  'plugins/agent_plane/quota/quota.test.ts',
  'plugins/api_keys/api_keys.test.ts',
  'plugins/audit/audit.test.ts',
  'plugins/namespaces/namespaces.test.ts',
  'plugins/operator_api/operator_api.test.ts',
  'plugins/remote_write/remote_write.test.ts',
  'plugins/rollups/rollups.test.ts',
  'plugins/triggers/triggers.test.ts',
  'plugins/webhooks/webhooks.test.ts',
]

for (const file of FILES) {
  test(`${file} with its state in PostgreSQL`, { skip, timeout: 400_000 }, async (t) => {
    const postgres = await startPostgres()
    assert.ok(postgres)
    t.after(() => postgres.stop())
    const { NODE_TEST_CONTEXT: _, ...outer } = process.env
    const env = { ...outer, SVC_TEST_STATE_URL: await postgres.database(), TAP_TIMEOUT: '300' }
    const child = spawn(process.execPath, [join(ROOT, file)], { cwd: ROOT, env, stdio: ['ignore', 'pipe', 'inherit'] })
    let output = ''
    child.stdout.on('data', (bytes) => {
      output += bytes
    })
    const [code] = await once(child, 'exit')
    const failed = output.split('\n').findIndex((line) => /^\s*not ok/.test(line))
    assert.equal(
      code,
      0,
      output
        .split('\n')
        .slice(Math.max(0, failed), failed + 40)
        .join('\n'),
    )
  })
}

test('what was acknowledged is there, whoever is killed', { skip, timeout: 600_000 }, async (t) => {
  const postgres = await startPostgres()
  assert.ok(postgres)
  t.after(() => postgres.stop())
  const folder = await mkdtemp(join(tmpdir(), 'svc-postgres-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  const config = join(folder, 'svc.toml')
  const url = await postgres.database()
  await writeFile(config, `plugins = ["namespaces"]\n[state]\nengine = "postgres"\nurl = "${url}"\nretry_secs = 3\n`)
  const options = { env: { SVC_DATA_DIR: join(folder, 'data') }, keepData: true }
  let server: RunningServer = await runServer(config, options)
  t.after(() => server.stop())
  const acknowledged: string[] = []
  const refused: string[] = []
  let over = false
  let next = 0
  const create = async (): Promise<void> => {
    while (!over) {
      const name = `n${next++}`
      try {
        const answer = await fetch(`${server.url}/api/v1/namespaces`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ name }),
        })
        const text = await answer.text()
        if (answer.status === 201) acknowledged.push(name)
        else {
          assert.equal(answer.status, 503, text)
          assert.ok(answer.headers.get('retry-after'))
          if (/nothing has changed/.test(text)) refused.push(name)
        }
      } catch (error) {
        // The server was killed: nobody knows.
        if (error instanceof assert.AssertionError) throw error
        await setTimeout(20)
      }
    }
  }
  const creating = Promise.all(Array.from({ length: 4 }, create))
  for (let kill = 0; kill < KILLS; kill++) {
    await setTimeout(300 + Math.random() * 700)
    if (kill % 2 === 0) {
      await postgres.kill()
      await setTimeout(Math.random() * 1000)
      await postgres.start()
    } else {
      process.kill(server.pid, 'SIGKILL')
      await setTimeout(100)
      server = await runServer(config, options)
    }
  }
  await setTimeout(500)
  over = true
  await creating
  const rows = await postgres.query<{ name: string }>(
    `SELECT (convert_from(value, 'UTF8')::json)->>'name' AS name FROM svc.state WHERE owner = 'namespaces' AND convert_from(key, 'UTF8') LIKE 'namespace/%'`,
    url.split('/').at(-1),
  )
  const there = new Set(rows.map(({ name }) => name))
  t.diagnostic(`${acknowledged.length} acknowledged, ${refused.length} refused, ${there.size} there, ${KILLS} kills`)
  assert.ok(acknowledged.length > KILLS)
  assert.deepEqual(
    acknowledged.filter((name) => !there.has(name)),
    [],
  )
  assert.deepEqual(
    refused.filter((name) => there.has(name)),
    [],
  )
})
