/** The command, in a process of its own: it may have to run in another name space. SVC_DISK_SEED repeats a run. */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import type { SourceDiskReport } from './source-disk.ts'

const COMMAND = fileURLToPath(new URL('./source-disk.ts', import.meta.url))
const TITLE = 'a source while the disk is full: nothing is acknowledged that is not stored, and all is stored when there is room'
t.setTimeout(600_000)

const seed = process.env.SVC_DISK_SEED ?? String(Date.now() % 1_000_000)
const { stdout } = await promisify(execFile)(process.execPath, [COMMAND, seed])
const report = JSON.parse(stdout.trim().split('\n').at(-1) as string) as { skipped: string } | SourceDiskReport

if ('skipped' in report) t.test(TITLE, { skip: `${report.skipped}` }, () => {})
else
  t.test(TITLE, async (t) => {
    t.comment(`SVC_DISK_SEED=${seed} ${JSON.stringify(report)}`)
    const { published, waiting, stored, wrong, deadLetters } = report
    t.ok(
      waiting.every((points) => points > 0),
      'the disk was full',
    )
    t.same({ stored, wrong, deadLetters }, { stored: published, wrong: 0, deadLetters: 0 })
  })
