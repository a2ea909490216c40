/** power-files.ts in a process of its own: it may have to run in another name space. */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'

const COMMAND = fileURLToPath(new URL('./power-files.ts', import.meta.url))
const seed = process.env.SVC_POWER_SEED ?? String(Date.now() % 1_000_000)
const { stdout } = await promisify(execFile)(process.execPath, [COMMAND, '10', seed])
const report = JSON.parse(stdout) as { skipped: string } | { cases: number; problems: string[] }

if ('skipped' in report) t.test('files after a power cut', { skip: report.skipped }, () => {})
else t.test('what a call has returned for is there after a power cut', async (t) => t.same(report.problems, [], `seed ${seed}`))
