/** The storage engine on ClickHouse: all of its tests, on chdb, a package of this folder, or on the server of SVC_TEST_CLICKHOUSE_URL. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { globSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { NO_CLICKHOUSE } from '../support/clickhouse/clickhouse.ts'
import { ROOT } from '../support/tree.ts'

const files = globSync(['storage/clickhouse/**/*.test.ts', 'test/protocols/clickhouse.test.ts'], { cwd: ROOT }).sort()

test('there are tests to run', () => assert.ok(files.length > 10))

for (const file of files)
  test(file, { skip: NO_CLICKHOUSE ?? false, timeout: 1_500_000 }, async () => {
    const { NODE_TEST_CONTEXT: _, ...outer } = process.env
    const child = spawn(process.execPath, [join(ROOT, file)], { cwd: ROOT, env: { ...outer, TAP_TIMEOUT: '1200' }, stdio: ['ignore', 'pipe', 'inherit'] })
    let output = ''
    child.stdout.on('data', (bytes) => {
      output += bytes
    })
    const [code] = await once(child, 'close')
    const printed = output.split('\n')
    const failed = printed.findIndex((line) => /^\s*not ok/.test(line))
    assert.equal(code, 0, printed.slice(Math.max(0, failed), failed + 40).join('\n'))
  })
