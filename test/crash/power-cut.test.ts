/** The short form of power-cut.ts, in processes of its own: it may have to run in another name space. SVC_POWER_CUTS and SVC_POWER_SEED set length and seed. */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import type { Policy, PowerCutReport } from './power-cut.ts'

const COMMAND = fileURLToPath(new URL('./power-cut.ts', import.meta.url))
t.setTimeout(900_000)
const { SVC_POWER_CUTS = '2', SVC_POWER_SEED = String(Date.now() % 1_000_000) } = process.env

async function run(policy: Policy, cuts: string, seed: string, broken?: string): Promise<PowerCutReport | { skipped: string }> {
  const env = { ...process.env, ...(broken === undefined ? {} : { SVC_POWER_BROKEN: broken }) }
  const { stdout } = await promisify(execFile)(process.execPath, [COMMAND, cuts, seed, policy], { env })
  return JSON.parse(stdout.trim().split('\n').at(-1) as string) as PowerCutReport
}

/** What the loop finds when a disk does not sync though it says so. */
const LOSS = /acknowledged batch \d+ is missing|the server has exited with 1|a backup that was acknowledged answers|was there after an earlier restart/
const first = await run('per_batch', SVC_POWER_CUTS, SVC_POWER_SEED)

if ('skipped' in first) t.test('power cuts', { skip: first.skipped }, () => {})
else {
  t.test('a power cut costs nothing that was acknowledged', async (t) => complete(t, first))
  t.test('a power cut costs the newest writes at most where the log is synced after the answer', async (t) =>
    complete(t, (await run('periodic_100', SVC_POWER_CUTS, SVC_POWER_SEED)) as PowerCutReport),
  )
  for (const broken of ['fsync', 'fsyncdir']) {
    t.test(`the loop notices a disk on which ${broken} does nothing`, async (t) => {
      const failure = (await run('per_batch', '10', '1', broken).catch((error: unknown) => error)) as { stderr?: string }
      t.match(failure.stderr, LOSS)
    })
  }
}

function complete(t: Test, report: PowerCutReport): void {
  t.comment(`seed ${SVC_POWER_SEED}: ${JSON.stringify(report)}`)
  t.ok(report.cuts >= Number(SVC_POWER_CUTS))
  t.ok(report.acknowledged > 0 && report.points > 0)
}
