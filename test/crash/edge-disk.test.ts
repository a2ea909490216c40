/** The command, in a process of its own: it may have to run in another name space. SVC_DISK_SEED repeats a run. */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import type { EdgeDiskReport } from './edge-disk.ts'

const COMMAND = fileURLToPath(new URL('./edge-disk.ts', import.meta.url))
t.setTimeout(600_000)

const seed = process.env.SVC_DISK_SEED ?? String(Date.now() % 1_000_000)
const { stdout } = await promisify(execFile)(process.execPath, [COMMAND, seed])
const report = JSON.parse(stdout.trim().split('\n').at(-1) as string) as { skipped: string } | Record<string, EdgeDiskReport>

if ('skipped' in report) t.test('an edge whose disk is full', { skip: `${report.skipped}` }, () => {})
else {
  t.comment(`SVC_DISK_SEED=${seed} ${JSON.stringify(report)}`)
  t.same(Object.keys(report), ['disk', 'queue'])
  for (const [what, { acknowledged, stored, wrong, refused, counted, lost }] of Object.entries(report)) {
    t.test(`an edge whose ${what} is full refuses, goes on when there is room, and loses nothing`, async (t) => {
      t.ok(refused > 0, 'writes were refused')
      if (what === 'queue') t.ok(counted > 0 && counted <= refused, 'and counted')
      t.ok(acknowledged > 0)
      t.same({ stored, wrong, lost }, { stored: acknowledged, wrong: 0, lost: 0 })
    })
  }
}
