/**
 * What operators ask and what a sweep costs, over many journalled runs: lists and attention by HTTP through the operator API, then sweeps over runs that wait, a
 * tenth of all or as many as are asked for: where nothing is due, and where all waits are over. Runs are written through the stores of the plane, several in a
 * transaction; a million takes some 4 GB of disk.
 * node plugins/agent_plane/plane-lists.bench.ts [runs, by default 20000] [waiting runs]
 */
import { mkdtemp, rm, statfs, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { performance } from 'node:perf_hooks'
import { definePlugin, type StateStore, type StateTransaction } from 'svcdb'
import type { Label } from 'svcdb/agents'
import { seeded } from 'svcdb/lib/random'
import { boot, type TestNode } from 'svcdb/testkit'
import { attachRun, openCase } from './cases/case-store.ts'
import { registerDeadline, sweepDeadlines } from './cases/obligations.ts'
import { Driver } from './drive/driver.ts'
import { awaitSealing, sealRuns } from './log/log.ts'
import { freeze } from './plan/plan.ts'
import { keepActing, takeSlot } from './quota/store.ts'
import { effectKey, newCaseId, newRunId } from './record/names.ts'
import { CANON, type NewRecord } from './record/record.ts'
import { beginWait, deliver, retire } from './store/events.ts'
import { append, headOf } from './store/journal.ts'
import { releaseLease, takeLease } from './store/leases.ts'
import { FINAL, markLanded, type Status, setStatus } from './store/runs.ts'
import { openTask } from './tasks/store.ts'

const BATCH = 500
const BYTES_A_RUN = 6000
const ROUNDS = 200
const DAY = 86_400_000
const LEASE_MS = 30_000
const TOKEN = 'bench'.padEnd(40, '-')
const SLICE = 256
const label: Label = { provenance: ['actor:bench'], trust: 'untrusted', sensitivity: 'internal' }
const plan = freeze([{ id: 'only', capability: 'bench.lists', terminal: true }])
const random = seeded(7)

/** Of a hundred runs. */
const SHARES: readonly (readonly [Status, number])[] = [
  ['suspended', 10],
  ['running', 1],
  ['failed', 2],
  ['quarantined', 2],
  ['exhausted', 1],
  ['withheld', 1],
  ['cancelled', 3],
]
const statusOfPlace = (place: number): Status => {
  let from = 0
  for (const [status, share] of SHARES) if (place < (from += share)) return status
  return 'succeeded'
}

async function write(tx: StateTransaction, now: number, index: number): Promise<void> {
  const run = newRunId(now, random)
  const status = statusOfPlace(index % 100)
  const epoch = (await takeLease(tx, run, 'bench', now, LEASE_MS)) as number
  const key = effectKey({ step: 1, phase: 'forward', ordinal: 0, attempt: 1, kind: 'bench.nothing', args: `${index}` })
  const started: NewRecord = {
    kind: 'EffectStarted',
    step: 1,
    effectKey: key,
    payload: { descriptor: { kind: 'bench.nothing', args: index }, recovery: { mode: 'requires_operator' }, mutates: true, attempt: 1, backoff_ms: 0 },
  }
  const records: NewRecord[] = [
    { kind: 'RunAdmitted', payload: { capability: 'bench.lists', input: { order: `o-${index}` }, input_label: label, canon: CANON, admitted_by: 'bench' } },
    { kind: 'PlanFrozen', payload: { steps: ['only'], plan } },
    { kind: 'StepStarted', step: 1, payload: { skill: 'bench.lists' } },
    started,
  ]
  if (status !== 'quarantined') records.push({ kind: 'EffectDone', step: 1, effectKey: key, payload: { output: { ok: true }, declared: label } })
  if (status !== 'suspended' && status !== 'running') records.push({ kind: 'RunConcluded', payload: { outcome: status, chain_head: '' } })
  await append(tx, run, epoch, await headOf(tx, run), records)
  keepActing(tx, run, { subjects: ['bench'] })
  // Some waits are over, and nobody drives some of those that go on.
  if (status === 'suspended') await beginWait(tx, { run, key, until: now + (index % 200 === 0 ? -DAY : 300 * DAY + index), event: eventOf(index) })
  if (status === 'running') takeSlot(tx, run, now)
  else await releaseLease(tx, run, epoch)
  await setStatus(tx, run, status)
  if (status === 'failed') markLanded(tx, run)
  if (index % 20 === 0) await ask(tx, run, key, now, index)
  if (index % 50 === 0) await attach(tx, run, now, index)
  if (index % 100 === 0)
    await deliver(tx, { id: `${index}`, source: 'bench', payload: null, kind: 'bench.nobody', correlation: eventOf(index).correlation }, now)
  if (!FINAL.has(status)) return
  awaitSealing(tx, run)
  await sealRuns(tx, [run])
}

const eventOf = (index: number) => ({ kind: 'bench.told', correlation: [{ namespace: 'order', value: `o-${index}` }] })

async function ask(tx: StateTransaction, run: string, effect: string, now: number, index: number): Promise<void> {
  const request = {
    kind: 'bench.ask',
    summary: `May order ${index} be refunded?`,
    proposed_action: { order: `o-${index}`, cents: index },
    evidence: ['It was paid twice.'],
    candidate_roles: [`role-${index % 3}`],
    withinMs: index % 400 === 0 ? 0 : 300 * DAY,
  }
  await openTask(tx, { run, effect, request, requesters: ['bench'], label, now })
}

async function attach(tx: StateTransaction, run: string, now: number, index: number): Promise<void> {
  const { id } = openCase(tx, newCaseId(now, random), 'bench.matter', eventOf(index).correlation, now)
  attachRun(tx, id, run)
  await registerDeadline(tx, { case: id, name: 'answer', resolved: now + (index % 500 === 0 ? -DAY : 300 * DAY), calendar_digest: '0'.repeat(64) })
}

async function fill(state: StateStore, runs: number): Promise<void> {
  const began = performance.now()
  const start = Date.now() - runs
  for (let begun = 0; begun < runs; begun += BATCH)
    await state.transaction(async (tx) => {
      for (let index = begun; index < Math.min(begun + BATCH, runs); index++) await write(tx, start + index, index)
    })
  await state.transaction((tx) => sweepDeadlines(tx, Date.now(), 2000))
  while ((await state.transaction((tx) => retire(tx, Date.now(), BATCH))) === BATCH);
  process.stdout.write(`${runs} runs in ${((performance.now() - began) / 1000).toFixed(0)} s\n`)
}

async function asked(node: TestNode, path: string): Promise<void> {
  const times: number[] = []
  let bytes = 0
  for (let round = 0; round < ROUNDS; round++) {
    const began = performance.now()
    const answer = await fetch(`${node.url}/api/v1/plane${path}`, { headers: { authorization: `Bearer ${TOKEN}` } })
    const text = await answer.text()
    times.push(performance.now() - began)
    if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${text}`)
    bytes = text.length
  }
  const first = times[0].toFixed(1)
  times.sort((a, b) => a - b)
  const at = (share: number): string => times[Math.min(times.length - 1, Math.floor(times.length * share))].toFixed(1)
  process.stdout.write(`GET ${path}: ${at(0.5)} ms, p99 ${at(0.99)} ms, the first ${first} ms; ${bytes} bytes\n`)
}

/** Suspended runs until there are so many. */
async function fillWaiting(state: StateStore, has: number, wanted: number): Promise<void> {
  const start = Date.now() - wanted
  for (let begun = has; begun < wanted; begun += BATCH)
    await state.transaction(async (tx) => {
      // Of places that are suspended and have nothing beside.
      for (let n = begun; n < Math.min(begun + BATCH, wanted); n++) await write(tx, start + n, 1_000_000_000 + n * 100 + 1)
    })
}

/**
 * What a process does that sweeps: it finds what is due, slice by slice, and sweeps with each. Between two slices the runs of one are begun, which is not
 * measured.
 */
async function sweeps(state: StateStore, waiting: number): Promise<void> {
  let now = Date.now() - 2 * DAY
  const driver = driverOf(state, () => now)
  const timed = async (): Promise<{ due: string[]; ms: number }> => {
    const began = performance.now()
    const due = await driver.due(SLICE)
    await driver.sweep(due)
    return { due, ms: performance.now() - began }
  }
  const early = await timed()
  process.stdout.write(
    `a sweep over ${waiting} waiting runs where nothing is due but what nobody drives: ${early.ms.toFixed(1)} ms, ${early.due.length} runs\n`,
  )
  now = Date.now() + 1000 * DAY
  let [found, total, longest, slices] = [0, 0, 0, 0]
  for (;;) {
    const { due, ms } = await timed()
    total += ms
    longest = Math.max(longest, ms)
    if (due.length === 0) break
    slices++
    found += due.length
    await state.transaction(async (tx) => {
      for (const run of due) {
        await takeLease(tx, run, 'bench', now, LEASE_MS)
        await setStatus(tx, run, 'succeeded')
      }
    })
  }
  process.stdout.write(
    `a sweep of ${waiting} waiting runs whose time is over, in ${slices} slices of ${SLICE}: ${total.toFixed(0)} ms in all, ${longest.toFixed(1)} ms the longest; ${found} runs\n`,
  )
}

/** Nothing is driven by it. */
function driverOf(state: StateStore, now: () => number): Driver {
  const never = () => Promise.reject(new Error('nothing is driven'))
  return new Driver({
    state,
    now,
    random,
    drives: false,
    skills: new Map(),
    calendars: new Map(),
    holder: 'sweeper',
    leaseMs: LEASE_MS,
    limits: { maxSteps: 0, maxEffects: 0 },
    sleep: never,
    soon: never,
    every: () => () => {},
    performed: () => {},
  })
}

const [runs = 20_000, waiting = runs / 10] = process.argv.slice(2).map(Number)
const rows = runs + Math.max(0, waiting - runs / 10)
const { bavail, bsize } = await statfs(tmpdir())
if (bavail * bsize < rows * BYTES_A_RUN * 2)
  throw new Error(`cannot write ${runs} runs below "${tmpdir()}": they take up to ${(rows * BYTES_A_RUN) / 1e9} GB, and half as much again has to stay free`)
const folder = await mkdtemp(join(tmpdir(), 'svc-plane-lists-'))
await writeFile(join(folder, 'tokens.yaml'), JSON.stringify([{ token: TOKEN, actor: 'ann', roles: ['admin', 'role-0', 'role-1'] }]))
await writeFile(join(folder, 'all.cedar'), 'permit (principal, action, resource);')
const held: { state?: StateStore } = {}
const owner = definePlugin({
  id: 'owner',
  summary: 'Has the state store of the plane',
  stability: 'experimental',
  capabilities: ['state'],
  setup: (svc) => svc.ready(() => void (held.state = svc.storage.state('agent_plane'))),
})
const node = await boot({
  plugins: ['agent_plane', 'cedar', 'operator_api', owner],
  storage: 'embedded',
  config: {
    authorization: { engine: 'none' },
    agent_plane: { sweep_interval_secs: 3600 },
    operator_api: { tokens_file: join(folder, 'tokens.yaml'), policy: join(folder, 'all.cedar') },
  },
})
try {
  const state = held.state as StateStore
  await fill(state, runs)
  const lists = ['/attention', '/runs', '/runs?outcome=succeeded', '/runs/waiting', '/runs/live', '/tasks', '/cases', '/obligations', '/dead-letters']
  for (const path of lists) await asked(node, path)
  await fillWaiting(state, runs / 10, waiting)
  await sweeps(state, Math.max(waiting, runs / 10))
} finally {
  await node.stop()
  await rm(folder, { recursive: true, force: true })
}
