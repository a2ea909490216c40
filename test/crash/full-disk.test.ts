/** The short form of the command, in a process of its own: it may have to run in another name space. SVC_DISK_SEED repeats a run. */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import type { ScenarioReport } from './full-disk.ts'

const COMMAND = fileURLToPath(new URL('./full-disk.ts', import.meta.url))
t.setTimeout(300_000)

const seed = process.env.SVC_DISK_SEED ?? String(Date.now() % 1_000_000)
const env = { ...process.env, SVC_DISK_CYCLES: process.env.SVC_DISK_CYCLES ?? '1' }
const { stdout } = await promisify(execFile)(process.execPath, [COMMAND, seed], { env })
const report = JSON.parse(stdout.trim().split('\n').at(-1) as string) as { skipped: string } | Record<string, ScenarioReport>

if ('skipped' in report) t.test('a full disk', { skip: `${report.skipped}` }, () => {})
else {
  t.comment(`SVC_DISK_SEED=${seed} ${JSON.stringify(report)}`)
  t.same(Object.keys(report), ['log', 'parts', 'catalog', 'protocols', 'churn'])
  for (const [name, { acknowledged, refused, points, resumedMs }] of Object.entries(report)) {
    t.test(`a full disk: ${name}`, async (t) => {
      t.ok(refused > 0, 'writes were refused')
      t.ok(acknowledged > 0 && points >= acknowledged, 'and others stored')
      t.ok(resumedMs >= 0, 'writes resumed without a restart')
    })
  }
}
