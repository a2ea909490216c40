/** The receiver's tests of the Prometheus compliance suite, compiled by `run`. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { startNode } from './node.ts'
import { missing } from './service.ts'

const PROGRAM = 'remote-write-receiver.test'
const skip = missing(PROGRAM)
const run = promisify(execFile)

test('remote write receiver compliance', { skip }, async (t) => {
  const node = await startNode({ plugins: ['remote_write', 'promql'], sections: '[remote_write]\nexemplars_written = "accepted"\n' })
  t.after(() => node.stop())
  const config = join(node.folder, 'compliance.yml')
  await writeFile(config, `remote_write:\n  - name: svc\n    url: ${node.url}/api/v1/prom/write\n`)
  const env = { ...process.env, PROMETHEUS_RW2_COMPLIANCE_CONFIG_FILE: config }
  const { stdout } = await run(PROGRAM, ['-test.v'], { cwd: node.folder, env, maxBuffer: 1e8 }).catch((error: { stdout: string }) => error)
  const results = [...stdout.matchAll(/^ *--- (PASS|FAIL|SKIP): (\S+)/gm)].map(([, outcome, name]) => ({ outcome, name }))
  t.diagnostic(`${results.filter(({ outcome }) => outcome === 'PASS').length} of ${results.length} pass`)
  assert.ok(results.length > 100, stdout.slice(-5000))
  const failed = results.filter(({ outcome }) => outcome !== 'PASS').map(({ outcome, name }) => `${outcome} ${name}`)
  assert.deepEqual(failed, [], stdout.slice(-20_000))
})
