/**
 * The long form of the tests whose quick form is in `npm test`: the same files with more seeds, steps and lives, and the proofs of CONTRIBUTING.md.
 * Each is a process of its own, one after the other; hours on a small machine.
 *
 *   node scripts/test-long.ts [part of a name]
 *   node scripts/test-long.ts --turn [number]
 *
 * With --turn it runs a minute or so of one of them, with a seed of its own: which one and which seed follow from the number, by default the day, so that
 * CI goes through all of them.
 */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'

interface Run {
  /** Arguments of node. */
  run: string[]
  env?: Record<string, string>
}

interface Long extends Run {
  /** A minute or so of it. Absent: it cannot be short. */
  turn?(seed: string): Run
}

const ROOT = join(import.meta.dirname, '..')
/** Seconds that a test of tap's may take; the long form has no limit of its own. */
const NO_LIMIT = '86400'

const RUNS: Long[] = [
  { run: ['storage/embedded/conformance-lives.test.ts'], env: { SVC_LIVES: 'all', SVC_SEEDS: '20', SVC_STEPS: '100' } },
  { run: ['storage/embedded/conformance-crash.test.ts'], env: { SVC_LIVES: 'all', SVC_SEEDS: '20', SVC_STEPS: '100' } },
  { run: ['storage/memory/memory.test.ts'], env: { SVC_LIVES: 'all', SVC_SEEDS: '50', SVC_STEPS: '200' } },
  { run: ['storage/embedded/simulation/run.ts', '20000'], turn: (seed) => ({ run: ['storage/embedded/simulation/run.ts', '400', seed] }) },
  {
    run: ['storage/embedded/encryption/random.test.ts'],
    env: { SVC_SEEDS: '10', SVC_STEPS: '100' },
    turn: (seed) => ({ run: ['storage/embedded/encryption/random.test.ts'], env: { SVC_SEED: seed } }),
  },
  {
    run: ['storage/embedded/archive/random.test.ts'],
    env: { SVC_STEPS: '150' },
    turn: (seed) => ({ run: ['storage/embedded/archive/random.test.ts'], env: { SVC_SEED: seed } }),
  },
  { run: ['storage/embedded/catalog/store.test.ts'], env: { SVC_LIVES: 'all' } },
  { run: ['storage/embedded/read/samples/samples.test.ts'], env: { SVC_RUNS: '40' } },
  { run: ['test/package/package.test.ts'], env: { SVC_INSTALL: 'registry' } },
  { run: ['test/crash/full-disk.test.ts'], env: { SVC_DISK_CYCLES: '20' } },
  { run: ['test/crash/kill-loop.ts', '200'], turn: (seed) => ({ run: ['test/crash/kill-loop.ts', '8', seed] }) },
  { run: ['test/crash/power-cut.ts', '100'], turn: (seed) => ({ run: ['test/crash/power-cut.ts', '5', seed] }) },
  { run: ['test/crash/power-files.ts', '100'], turn: (seed) => ({ run: ['test/crash/power-files.ts', '30', seed] }) },
  { run: ['test/crash/torn-wal.ts', '10'], turn: (seed) => ({ run: ['test/crash/torn-wal.ts', '1', seed] }) },
  { run: ['test/crash/bit-flips.ts', '5'], turn: (seed) => ({ run: ['test/crash/bit-flips.ts', '1', seed] }) },
  { run: ['test/crash/backup-loop.ts', '20'], turn: (seed) => ({ run: ['test/crash/backup-loop.ts', '3', seed] }) },
  {
    run: ['plugins/triggers/model.test.ts'],
    env: { SVC_STEPS: '2000' },
    turn: (seed) => ({ run: ['plugins/triggers/model.test.ts'], env: { SVC_SEED: seed, SVC_STEPS: '300' } }),
  },
  {
    run: ['test/security/tenant-isolation.test.ts'],
    env: { SVC_STEPS: '8000' },
    turn: (seed) => ({ run: ['test/security/tenant-isolation.test.ts'], env: { SVC_SEED: seed, SVC_STEPS: '1500' } }),
  },
  {
    run: ['test/crash/edge.test.ts'],
    env: { SVC_POINTS: '1000000', SVC_MINUTES: '120' },
    turn: (seed) => ({ run: ['test/crash/edge.test.ts'], env: { SVC_SEED: seed, SVC_POINTS: '100000', SVC_MINUTES: '0.5' } }),
  },
  {
    run: ['test/crash/cluster.test.ts'],
    env: { SVC_EVENTS: '500', SVC_NODES: '5' },
    turn: (seed) => ({ run: ['test/crash/cluster.test.ts'], env: { SVC_SEED: seed, SVC_EVENTS: '15', SVC_NODES: '5' } }),
  },
  { run: ['storage/forward/queue.test.ts'], env: { SVC_SEEDS: '20000' } },
  { run: ['test/crash/trigger-loop.ts', '100'], turn: (seed) => ({ run: ['test/crash/trigger-loop.ts', '10', seed] }) },
  {
    run: ['storage/embedded/changes/changes.test.ts'],
    env: { SVC_SEEDS: '40', SVC_STEPS: '300' },
    turn: (seed) => ({ run: ['storage/embedded/changes/changes.test.ts'], env: { SVC_SEED: seed, SVC_STEPS: '150' } }),
  },
  { run: ['test/crash/rollups.ts', '100'], turn: (seed) => ({ run: ['test/crash/rollups.ts', '8', seed] }) },
  { run: ['test/crash/toggles.ts', '100'], turn: (seed) => ({ run: ['test/crash/toggles.ts', '8', seed] }) },
  { run: ['test/crash/automation.ts', '100'], turn: (seed) => ({ run: ['test/crash/automation.ts', '15', seed] }) },
  { run: ['test/crash/rollups.test.ts'], env: { SVC_STEPS: '500', SVC_KILLS: '0' } },
  { run: ['test/crash/churn.ts', '1000000', '4'] },
  { run: ['storage/embedded/sql/gate.fuzz.ts', '1800'], turn: (seed) => ({ run: ['storage/embedded/sql/gate.fuzz.ts', '45', seed] }) },
  { run: ['test/security/bombs.ts', '200'], turn: (seed) => ({ run: ['test/security/bombs.ts', '20', seed] }) },
  { run: ['test/security/loop-delay.ts'] },
  {
    run: ['plugins/webhooks/crash.test.ts'],
    env: { SVC_CRASH_ITERATIONS: '100' },
    turn: (seed) => ({ run: ['plugins/webhooks/crash.test.ts'], env: { SVC_CRASH_SEED: seed } }),
  },
  { run: ['plugins/webhooks/address.test.ts'], env: { SVC_ADDRESS_STEPS: '2000000' } },
  { run: ['plugins/webhooks/outbox.test.ts'], env: { SVC_OUTBOX_STEPS: '20000' } },
  {
    run: ['plugins/agent_plane/testing/simulate.ts', '20000'],
    turn: (seed) => ({ run: ['plugins/agent_plane/testing/simulate.ts', '1000', seed] }),
  },
  { run: ['test/crash/plane.ts', '1000', '20'], turn: (seed) => ({ run: ['test/crash/plane.ts', '100', '4', seed] }) },
  { run: ['test/crash/duties.ts', '50'], turn: (seed) => ({ run: ['test/crash/duties.ts', '8', seed] }) },
  { run: ['test/soak/soak.ts', '10', '--rate', 'half'] },
  { run: ['test/soak/soak.ts', '60', '--automation'] },
  { run: ['scripts/run-each.ts', 'fuzz', '--', '60'] },
]

const [part = '', number = String(Math.floor(Date.now() / 86_400_000))] = process.argv.slice(2)
const chosen = part === '--turn' ? [inTurn(Number(number))] : RUNS.filter(({ run }) => run.join(' ').includes(part))
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

function inTurn(number: number): Run {
  const turns = RUNS.flatMap(({ turn }) => turn ?? [])
  if (!Number.isSafeInteger(number) || number < 0) throw new Error(`cannot run turn "${number}": it is a whole number from 0`)
  return turns[number % turns.length](String(number))
}
