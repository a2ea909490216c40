/**
 * The long form of the tests whose quick form is in `npm test`: the same files with more seeds, steps and lives, and the proofs of CONTRIBUTING.md.
 * Each is a process of its own, one after the other; hours on a small machine.
 *
 *   node scripts/test-long.ts [part of a name]
 */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'

interface Run {
  /** Arguments of node. */
  run: string[]
  env?: Record<string, string>
}

const ROOT = join(import.meta.dirname, '..')
/** Seconds that a test of tap's may take; the long form has no limit of its own. */
const NO_LIMIT = '86400'

const RUNS: Run[] = [
  { run: ['storage/embedded/conformance.test.ts'], env: { SVC_LIVES: 'all', SVC_SEEDS: '20', SVC_STEPS: '100' } },
  { run: ['storage/embedded/conformance-crash.test.ts'], env: { SVC_LIVES: 'all', SVC_SEEDS: '20', SVC_STEPS: '100' } },
  { run: ['storage/memory/memory.test.ts'], env: { SVC_LIVES: 'all', SVC_SEEDS: '50', SVC_STEPS: '200' } },
  { run: ['storage/embedded/encryption/random.test.ts'], env: { SVC_SEEDS: '10', SVC_STEPS: '100' } },
  { run: ['storage/embedded/archive/random.test.ts'], env: { SVC_STEPS: '150' } },
  { run: ['storage/embedded/catalog/store.test.ts'], env: { SVC_LIVES: 'all' } },
  { run: ['storage/embedded/read/samples/samples.test.ts'], env: { SVC_RUNS: '40' } },
  { run: ['test/crash/full-disk.test.ts'], env: { SVC_DISK_CYCLES: '20' } },
  { run: ['test/crash/kill-loop.ts', '200'] },
  { run: ['test/crash/power-cut.ts', '100'] },
  { run: ['test/crash/power-files.ts', '100'] },
  { run: ['test/crash/torn-wal.ts', '10'] },
  { run: ['test/crash/bit-flips.ts', '5'] },
  { run: ['test/crash/backup-loop.ts', '20'] },
  { run: ['test/crash/churn.ts', '1000000', '4'] },
  { run: ['storage/embedded/sql/gate.fuzz.ts', '1800'] },
  { run: ['test/security/bombs.ts', '200'] },
  { run: ['test/security/loop-delay.ts'] },
  { run: ['scripts/run-each.ts', 'fuzz', '--', '60'] },
]

const [part = ''] = process.argv.slice(2)
const chosen = RUNS.filter(({ run }) => run.join(' ').includes(part))
const failed: string[] = []
for (const { run, env = {} } of chosen) {
  const settings = Object.entries(env).map(([name, value]) => `${name}=${value} `)
  process.stdout.write(`\n== ${settings.join('')}node ${run.join(' ')}\n`)
  const began = performance.now()
  const { status } = spawnSync(process.execPath, run, { cwd: ROOT, stdio: 'inherit', env: { ...process.env, TAP_TIMEOUT: NO_LIMIT, ...env } })
  process.stdout.write(`== ${status === 0 ? 'passed' : 'FAILED'}, ${Math.round((performance.now() - began) / 1000)} s\n`)
  if (status !== 0) failed.push(run.join(' '))
}
process.stdout.write(`\n${chosen.length - failed.length} of ${chosen.length} passed${failed.map((name) => `\nfailed: ${name}`).join('')}\n`)
process.exit(failed.length === 0 && chosen.length > 0 ? 0 : 1)
