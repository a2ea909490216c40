/** kill -9 at random moments while a process records: the chain holds after every restart, and what was acknowledged is there. */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as wait } from 'node:timers/promises'
import { seeded } from 'svcdb/lib/random'
import { temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { check, entriesOf, makeAuditLog } from './testing.ts'

const { SVC_CRASH_ITERATIONS = '12', SVC_CRASH_SEED } = process.env
const seed = Number(SVC_CRASH_SEED ?? Date.now() % 1_000_000)
const recorder = join(import.meta.dirname, 'testing-recorder.ts')
t.setTimeout(600_000)

t.test('what was acknowledged survives SIGKILL, and the chain holds', async (t) => {
  t.comment(`seed ${seed}`)
  const random = seeded(seed)
  const path = join(temporaryFolder(t), 'audit.jsonl')
  const acknowledged: string[] = []
  let first = 0
  for (let i = 0; i < Number(SVC_CRASH_ITERATIONS); i++) {
    const args = [recorder, path, String(first), random() < 0.3 ? '1' : '32', String(random() < 0.7)]
    // With nothing else in its environment: the test runner adds loaders of its own.
    const child = spawn(process.execPath, args, { env: { PATH: process.env.PATH }, stdio: ['ignore', 'pipe', 'inherit'] })
    const closed = once(child, 'close')
    const opened = Promise.withResolvers<void>()
    child.on('exit', () => opened.resolve())
    createInterface({ input: child.stdout }).on('line', (line) => (line === 'open' ? opened.resolve() : acknowledged.push(line)))
    // Some die while they start.
    if (random() < 0.85) await opened.promise
    await wait(random() * 150)
    child.kill('SIGKILL')
    await closed
    const auditLog = makeAuditLog(path)
    await auditLog.open()
    await auditLog.stop()
    t.equal((await check(path)).broken, undefined, `kill ${i + 1}`)
    const there = new Set(entriesOf(path).map(({ resource }) => resource))
    t.same(
      acknowledged.filter((resource) => !there.has(resource)),
      [],
      `${acknowledged.length} acknowledged`,
    )
    first = Math.max(first, ...[...there].map(Number).filter(Number.isFinite)) + 1
  }
  t.ok(acknowledged.length > 0 && existsSync(path))
})
