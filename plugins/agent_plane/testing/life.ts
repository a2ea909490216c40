/** A life of the plane in a world: runs that are begun, driven, told, cancelled and decided, by processes that die; and what must hold in the end. */
import assert from 'node:assert/strict'
import type { PlanNode, RecoveryMode } from 'svcdb/agents'
import { BrokenPass } from '../drive/pass.ts'
import { COMMISSION } from '../drive/run-journal.ts'
import { standingHalts } from '../halts/store.ts'
import { hasSlot, type PeriodRow, type Reservation } from '../quota/store.ts'
import { decode, type JournalRecord, type Sealed, verified } from '../record/record.ts'
import { RUN_OVER } from '../store/children.ts'
import { headOf, recordsOf } from '../store/journal.ts'
import { leaseOf } from '../store/leases.ts'
import { FINAL, type Status } from '../store/runs.ts'
import { waitsOf } from '../store/waits.ts'
import { holdOrRelease, randomCase, randomCaseAct } from './case-acts.ts'
import { judgeCases } from './case-model.ts'
import { judgeIndexes } from './indexes.ts'
import { assertNotDecided, decideAll, judgeTasks, personActs, REQUESTER, sweep } from './persons.ts'
import { type Act, Died, isOfStore, memoryState, OF_STORE, type Process, World } from './world.ts'

const MODES: readonly RecoveryMode[] = ['retry', 'idempotent', 'reconcile', 'requires_operator']
const BOSS = ['boss.undone', 'boss.undone', 'boss.plain', 'sim.undone', 'sim.nothing']
const CAPABILITIES = ['sim.undone', 'sim.undone', 'sim.undone', 'sim.plain', 'sim.nothing', 'sim.pivot']
const OPERATOR = { actor: 'eve', basis: 'asserted' } as const
const HOUR = 3_600_000
/** What operators write into a journal that is at rest. */
const OF_OPERATORS: ReadonlySet<string> = new Set(['EffectReconciled', 'QuarantineDecided'])
const ROUNDS = 400
/** Turns that a pass takes, more or less. */
const MOMENTS = 250
const OVER: ReadonlySet<string> = new Set(['succeeded', 'cancelled', 'abandoned'])
const DIVERGED = /another one than|fewer|now fails|was not before|nothing here/

export interface LifeOptions {
  death: number
  failure: number
  /** That a call of the store fails. */
  store: number
  /** Two processes work at one time, and clocks jump over leases. */
  rivals: boolean
  dieAt?: number
}

export interface LifeReport {
  calls: number
  deaths: number
  /** Calls that the store has failed. */
  failed: number
  performed: number
  records: number
  tasks: number
  /** Runs that others have commissioned, and those of them that were stopped because these were undone. */
  commissioned: number
  recalled: number
  statuses: string[]
}

/** @throws AssertionError saying what did not hold. */
export async function live(seed: number, options: LifeOptions): Promise<LifeReport> {
  const disk = await memoryState()
  const world = new World(seed, disk, { death: options.death, failure: options.failure, store: options.store })
  world.dieAt = options.dieAt
  if (options.rivals) world.jump = 0.03
  const { random } = world
  const processes: Process[] = [world.start(), ...(options.rivals ? [world.start()] : [])]
  /** One that is alive. */
  const any = (): Process => {
    const index = Math.floor(random() * processes.length)
    if (!processes[index].alive) processes[index] = world.start()
    return processes[index]
  }
  /** undefined = the process died of it. */
  const attempt = async <T>(process: Process, act: () => Promise<T>): Promise<T | undefined> => {
    try {
      return await act()
    } catch (error) {
      if (error instanceof Died || error instanceof BrokenPass || isOfStore(error) || !process.alive) return undefined
      // A halt stands, or the run or its case is over.
      if (['CONFLICT', 'FORBIDDEN'].includes((error as { code?: string }).code ?? '') || (error as Error).name === 'Error') return undefined
      throw error
    }
  }

  const wanted = 1 + Math.floor(random() * 4)
  /** Those that were commissioned as well. */
  const runs = new Set<string>()
  let begun = 0
  const beginOne = async (): Promise<void> => {
    const i = begun
    const plan = randomPlan(random)
    while (begun === i) {
      const process = any()
      const matter = random() < 0.7 ? { case: await randomCase(random, world.disk) } : {}
      const answer = await attempt(process, () => process.driver.admit({ plan, input: {}, actor: REQUESTER, idempotencyKey: `life-${i}`, ...matter }))
      if (answer !== undefined) runs.add(answer.run)
      if (answer !== undefined) begun++
      if (answer?.epoch !== undefined && random() < 0.5) await attempt(process, () => process.driver.drive(answer.run, answer.epoch))
      if ((await standingHalts(world.disk)).length > 0) return
    }
  }
  await beginOne()
  let told = 0
  const tell = async (process: Process): Promise<void> => {
    // What was told without an answer is told again.
    const to = random() < 0.2 ? { to: [...runs][Math.floor(random() * runs.size)] } : {}
    const event = { id: `e${told}`, source: 'sim', kind: 'told', ...to, correlation: [{ namespace: 'n', value: random() < 0.5 ? 'a' : 'b' }], payload: told }
    if ((await attempt(process, () => process.driver.deliver(event))) !== undefined) told++
  }
  const drive = async (process: Process, due: readonly string[]): Promise<void> => {
    for (const run of due) await attempt(process, () => process.driver.drive(run))
  }
  const halted = { times: 0 }
  let quiet = 0
  for (let round = 0; quiet < 3 || begun < wanted; round++) {
    assert.ok(round < ROUNDS, `the runs come to rest: ${await statusesOf(runs, world)}`)
    if (round === ROUNDS / 4) world.calm()
    for (const [run] of await parents(world)) runs.add(run)
    await checkSlots(runs, world)
    await nobodyWaitsInVain(runs, world)
    const process = any()
    for (const { run, epoch } of process.commissioned.splice(0)) if (random() < 0.7) await attempt(process, () => process.driver.drive(run, epoch))
    const { driver } = process
    const chance = random()
    if (random() < 0.05) await attempt(process, () => haltOrLift(driver, world, halted))
    const run = [...runs][Math.floor(random() * runs.size)]
    if (chance < 0.15) world.now += Math.floor(random() * 2 * HOUR)
    else if (chance < 0.18) world.now -= Math.floor(random() * HOUR)
    else if (chance < 0.3) await tell(process)
    else if (chance < 0.32) await attempt(process, () => driver.cancel(run, OPERATOR, 'not wanted'))
    else if (begun < wanted && (chance < 0.4 || quiet > 1)) await beginOne()
    else if (chance < 0.36) await holdOrRelease(process, random, world, attempt)
    else if (chance < 0.46) await personActs(world, any, attempt)
    else {
      const due = (await attempt(process, () => driver.due(32))) ?? []
      await sweep(world, process, attempt, due)
      if (random() < 0.5) await attempt(process, () => driver.seal(4))
      const rival = options.rivals ? any() : process
      const drivers = due.flatMap((each) => [process, rival].map((one) => attempt(one, () => one.driver.drive(each))))
      // While they go on events come, at any moment, that of a suspension among them, stops are asked for, and others try as well.
      const told = Array.from({ length: Math.floor(random() * 4) }, () => later(Math.floor(random() * MOMENTS), () => tell(any())))
      const stop = (one: Process) => attempt(one, () => one.driver.cancel(run, OPERATOR, 'not now'))
      const stopped = random() < 0.1 ? [later(Math.floor(random() * MOMENTS), () => stop(any()))] : []
      const others = options.rivals ? Array.from({ length: 6 }, (_, i) => later(i * 8, () => drive(any(), due))) : []
      await Promise.all([...drivers, ...told, ...stopped, ...others])
      if (due.length > 0) quiet = 0
      else if (process.alive) {
        world.now += 31_000
        quiet += (await settle(runs, world, process, random, attempt)) ? 1 : 0
      }
    }
  }
  return judge(runs, world, random, options)
}

/** Runs that were commissioned, with the ones that did. */
async function parents({ disk }: World): Promise<[run: string, parent: string][]> {
  return (await disk.list<string>({ prefix: 'parent/' })).map(({ key, value }) => [key.slice('parent/'.length), value])
}

/** Between two rounds nothing is under way: what a suspended run is to be told would reach it by chance only. */
async function nobodyWaitsInVain(runs: ReadonlySet<string>, { disk }: World): Promise<void> {
  for (const run of runs) {
    if ((await disk.get(`status/${run}`)) !== 'suspended') continue
    assert.deepEqual(await disk.list({ prefix: `inbox/${run}/` }), [], `${run} is told what has come for it`)
    for (const { event } of await waitsOf(disk, run)) {
      if (event?.kind !== RUN_OVER) continue
      const [{ value: child }] = event.correlation
      const isOver = FINAL.has((await disk.get<Status>(`status/${child}`)) as Status)
      assert.ok(isOver || (await disk.get(`cancel/${child}`)) !== undefined, `${child} is told to stop: ${run}, that has commissioned it, is undone`)
    }
    if ((await disk.get(`cancel/${run}`)) === undefined) continue
    const kinds = (await recordsOf(disk, run)).map(({ raw }) => decode(raw).kind)
    assert.ok(kinds.includes('RunCancelled'), `${run} is told that it is to stop`)
  }
}

/** After so many turns of others. */
async function later(turns: number, act: () => Promise<unknown>): Promise<void> {
  for (let rest = turns; rest > 0; rest--) await undefined
  await act()
}

type Attempt = <T>(process: Process, act: () => Promise<T>) => Promise<T | undefined>

/** What an operator does; runs that wait get the time that they wait for. @returns whether nothing was to be done. */
async function settle(runs: ReadonlySet<string>, world: World, process: Process, random: () => number, attempt: Attempt): Promise<boolean> {
  const { driver } = process
  let still = true
  for (const run of runs) {
    const standing = await attempt(process, () => driver.standing(run))
    if (standing === undefined) return false
    assert.doesNotMatch(standing.reason ?? '', DIVERGED, `${run}: the code did the same as before: ${standing.reason}`)
    if (standing.status === 'suspended') {
      await assertNotDecided(run, world)
      if (random() < 0.5) await decideAll(run, world, process, attempt)
      else await sweep(world, process, attempt)
      world.now += HOUR
      still = false
    }
    if (standing.status === 'running') still = false
    if (standing.status === 'withheld') {
      still = false
      await attempt(process, () => driver.lift('subject:ann', OPERATOR))
      await attempt(process, () => driver.resume(run))
    }
    if (standing.status !== 'quarantined') continue
    for (const { effect } of standing.undecided) {
      still = false
      const what = descriptorOf(await recordsOf(world.disk, run), effect)
      const landed = (world.landed.get(what) ?? 0) > 0
      const said = landed ? { disposition: 'landed' as const, output: { about: 'said' }, note: '' } : { disposition: 'did_not_happen' as const, note: '' }
      await attempt(process, () => driver.reconcile(run, effect, said, OPERATOR))
    }
    // Who has commissioned it may wait for its end.
    const isAwaited = (await world.disk.get(`parent/${run}`)) !== undefined
    if (standing.undecided.length > 0 || isAwaited)
      await attempt(process, () => driver.decide(run, standing.undecided.length > 0 && random() < 0.9 ? 'reopen' : 'abandon', OPERATOR, 'looked at'))
  }
  return still
}

function descriptorOf(sealed: readonly Sealed[], effect: string): string {
  const [started] = sealed.map(({ raw }) => decode(raw)).filter(({ kind, effectKey }) => kind === 'EffectStarted' && effectKey === effect)
  return (started.payload.descriptor as { args: string }).args
}

async function statusesOf(runs: ReadonlySet<string>, world: World): Promise<string[]> {
  return Promise.all([...runs].map(async (run) => (await world.disk.get<string>(`status/${run}`)) ?? 'none'))
}

async function judge(runs: ReadonlySet<string>, world: World, random: () => number, { rivals }: LifeOptions): Promise<LifeReport> {
  world.calm()
  await checkSlots(runs, world)
  await judgeIndexes(world.disk)
  await checkSpend(runs, world)
  for (const [id, count] of world.performed) assert.equal(count, 1, `effect ${id} was performed once`)
  const driver = world.start().driver
  for (let rest = 0; (await driver.sweep([])).length > 0 || (await driver.seal(100)) > 0; rest++) assert.ok(rest < ROUNDS, 'sweeps come to rest')
  assert.equal((await world.disk.list({ prefix: 'key/' })).length, runs.size, 'a key gives the run that was begun with it')
  await judgeCases(world.disk, world.now, runs)
  let all = 0
  const statuses = await statusesOf(runs, world)
  const commissioned = await checkCommissioned(world)
  for (const [index, run] of [...runs].entries()) {
    const status = statuses[index]
    if (OVER.has(status)) assert.deepEqual(await world.disk.list({ prefix: `addressed/${run}/` }), [], `nothing is kept for ${run}, which is over`)
    const [sealed, head] = [await recordsOf(world.disk, run), await headOf(world.disk, run)]
    const records = verified(run, sealed, head)
    all += records.length
    const last = records.findLast(({ kind }) => kind === 'RunConcluded')?.payload.outcome
    assert.equal(status, last, `${run} stands as its journal says`)
    checkPasses(run, records)
    checkAnswers(run, records)
    flipOne(run, sealed, head, random)
    const modes = new Map(
      records
        .filter(({ kind }) => kind === 'EffectStarted')
        .map(({ payload }) => [(payload.descriptor as { args: string }).args, (payload.recovery as { mode: string }).mode]),
    )
    for (const [what, count] of world.landed) {
      if (!what.startsWith(run) || modes.get(what) === 'retry') continue
      // A probe cannot see what a process that has lost its lease is about to do.
      if (!(rivals && modes.get(what) === 'reconcile')) assert.equal(count, 1, `${what} (${modes.get(what)}) has happened once`)
    }
    const skills = new Set(records.filter(({ kind }) => kind === 'StepStarted').map(({ payload }) => payload.skill))
    const isUndone = status === 'cancelled' || (status === 'failed' && records.some(({ kind }) => kind === 'StepCompensated'))
    if (isUndone && [...skills].every((skill) => String(skill).endsWith('.undone')))
      for (const what of world.landed.keys())
        if (what.startsWith(run) && !what.endsWith('/back')) assert.equal(world.landed.get(`${what}/back`), 1, `${what} was undone once`)
    const { divergences } = await driver.replay(run)
    assert.deepEqual(divergences, [], `${run} replays strictly`)
  }
  const tasks = await judgeTasks(world)
  return { calls: world.calls, deaths: world.deaths, failed: world.failed, performed: world.performed.size, records: all, tasks, ...commissioned, statuses }
}

/** What a run that was undone had commissioned, and has not read the end of, is over; nothing that the plane tells its runs is left for a person. */
async function checkCommissioned(world: World): Promise<{ commissioned: number; recalled: number }> {
  const { disk } = world
  const all = await parents(world)
  let recalled = 0
  for (const [run, parent] of all) {
    if ((await disk.get<{ reason: string }>(`cancel/${run}`))?.reason.includes(`the run ${parent} `) === true) recalled++
    const [status, above] = await statusesOf(new Set([run, parent]), world)
    const records = verified(parent, await recordsOf(disk, parent), await headOf(disk, parent))
    const read = records.some(({ kind, payload }) => kind === 'EffectDone' && (payload.output as { id?: string } | null)?.id === run)
    if ((above === 'cancelled' || above === 'failed') && !read)
      assert.ok(FINAL.has(status as Status), `${run}, that ${parent} has commissioned, is ${status}, and that is ${above}`)
  }
  for (const { value } of await disk.list<{ kind: string }>({ prefix: 'dead/' })) assert.doesNotMatch(value.kind, /^svc\./)
  return { commissioned: all.length, recalled }
}

/** A run has a slot as long as somebody has its lease; what is kept of a period is what its reservations and records come to. */
async function checkSlots(runs: ReadonlySet<string>, { disk }: World): Promise<void> {
  for (const run of runs) {
    const holder = (await leaseOf(disk, run))?.holder
    assert.equal(await hasSlot(disk, run), holder !== undefined, `${run} has a slot if, and only if, somebody has its lease`)
  }
}

/** Whoever goes on after a conclusion takes a slot first, and says so; nobody takes one that he has. */
function checkPasses(run: string, records: readonly JournalRecord[]): void {
  let has = true
  // A wait that is not over may be looked at in more than one pass.
  let waits = false
  for (const { kind, seq } of records) {
    if (kind === 'QuotaPassStarted') {
      assert.ok(!has || waits, `${run}: at record ${seq} a slot is taken again that was given back`)
      has = true
    } else if (kind === 'RunSuspended') waits = true
    else if (kind === 'RunConcluded') has = false
    else if (!OF_OPERATORS.has(kind)) assert.ok(has, `${run}: record ${seq}, ${kind}, is of a pass that has a slot`)
  }
}

/** What the store could not do is no answer to what a step has asked. A run that is commissioned begins outside of the journal: then it is. */
function checkAnswers(run: string, records: readonly JournalRecord[]): void {
  const commissions = new Set(
    records.flatMap(({ payload, effectKey }) => ((payload.descriptor as { kind?: string } | undefined)?.kind === COMMISSION ? [effectKey] : [])),
  )
  for (const { kind, seq, effectKey, payload } of records)
    if ((kind === 'EffectFailed' && !commissions.has(effectKey)) || kind === 'RunConcluded')
      assert.doesNotMatch(
        JSON.stringify([payload.error, payload.reason]),
        OF_STORE,
        `${run}: record ${seq}, ${kind}, has an answer that the store did not give`,
      )
}

async function checkSpend(runs: ReadonlySet<string>, { disk }: World): Promise<void> {
  let [settled, reserved, kept] = [0, 0, 0]
  for (const { value } of await disk.list<PeriodRow>({ prefix: 'quota/period/' })) {
    settled += value.settled.tokens
    reserved += value.reserved.tokens
  }
  for (const { value } of await disk.list<Reservation>({ prefix: 'quota/reserved/' })) kept += value.tokens
  assert.equal(reserved, kept, 'what is reserved is what its rows come to')
  let spent = 0
  for (const run of runs) {
    const records = verified(run, await recordsOf(disk, run), await headOf(disk, run))
    const last = records.findLast(({ kind }) => kind === 'RunConcluded')?.payload as { outcome: string; live_spend?: { tokens: number } }
    const own = records.reduce((sum, { payload }) => sum + ((payload.spend as { tokens?: number } | undefined)?.tokens ?? 0), 0)
    for (const { kind, effectKey } of records)
      if (kind === 'EffectDone' || kind === 'EffectFailed' || kind === 'EffectReconciled')
        assert.equal(await disk.get(`quota/reserved/${run}/${effectKey}`), undefined, `${run}: nothing is reserved for ${effectKey}, which has its end`)
    const isOver = ['succeeded', 'cancelled', 'abandoned'].includes(last.outcome)
    spent += isOver ? (last.live_spend?.tokens ?? 0) : own
    if (isOver) assert.deepEqual(await disk.list({ prefix: `quota/reserved/${run}/` }), [], `${run} is over, and nothing is reserved for it`)
  }
  assert.equal(settled, spent, 'what is settled is what the journals say')
}

/** An emergency stop of the one for whom all runs act. */
async function haltOrLift(driver: Process['driver'], { disk }: World, halted: { times: number }): Promise<void> {
  if ((await standingHalts(disk)).length > 0) await driver.lift('subject:ann', OPERATOR)
  else if (halted.times++ < 3) await driver.halt('subject:ann', 'look into it', OPERATOR)
}

function flipOne(run: string, sealed: readonly Sealed[], head: { seq: number; hash: string }, random: () => number): void {
  const index = Math.floor(random() * sealed.length)
  const bytes = Buffer.from(sealed[index].raw)
  const bit = Math.floor(random() * bytes.length * 8)
  bytes[bit >> 3] ^= 1 << (bit & 7)
  const flipped = sealed.map((one, i) => (i === index ? { ...one, raw: bytes.toString() } : one))
  assert.throws(() => verified(run, flipped, head), `a flipped bit of record ${index + 1} is found`)
}

function randomTask(random: () => number, about: string): Act {
  const chance = random()
  const expiry =
    chance < 0.2
      ? { policy: 'deny' as const }
      : chance < 0.4
        ? { policy: 'escalate' as const, escalate_to: ['lead'] }
        : chance < 0.5
          ? { policy: 'proceed' as const, allow_unattended: true as const }
          : undefined
  const ends = expiry === undefined ? {} : { expiry, ms: Math.floor(random() * 3 * HOUR) }
  return { do: 'task', about, roles: random() < 0.5 ? ['desk'] : [], wait: random() < 0.7, ...ends }
}

function randomCommission(random: () => number, act: () => Act): Act {
  const capability = random() < 0.7 ? 'hand.undone' : 'hand.plain'
  const acts = Array.from({ length: 1 + Math.floor(random() * 3) }, act)
  return { do: 'commission', capability, acts, ms: Math.floor(random() * 4 * HOUR), caught: random() < 0.4 }
}

function randomPlan(random: () => number): PlanNode[] {
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)]
  const only = random() < 0.5 ? 'sim.undone' : undefined
  const isBoss = only === undefined && random() < 0.5
  let capability = ''
  let effects = 0
  const oneAct = (depth: number): Act => {
    if (depth === 0 && capability.startsWith('boss.') && random() < 0.25) {
      const commissions = Array.from({ length: random() < 0.3 ? 2 : 1 }, () => randomCommission(random, () => oneAct(1)))
      return commissions.length === 1 ? commissions[0] : { do: 'both', acts: commissions }
    }
    const chance = random()
    if (chance < 0.4) {
      const mode = pick(MODES)
      const tokens = random() < 0.5 ? { tokens: 1 + Math.floor(random() * 50) } : {}
      return { do: 'effect', about: `x${effects++}`, mode, mutates: mode !== 'retry' && random() < 0.8, ...tokens }
    }
    if (chance < 0.48) return { do: 'sleep', ms: Math.floor(random() * HOUR) }
    if (chance < 0.57) return { do: 'await', correlation: [{ namespace: 'n', value: random() < 0.5 ? 'a' : 'b' }], ms: Math.floor(random() * 3 * HOUR) }
    if (chance < 0.73) return randomCaseAct(random)
    if (chance < 0.83) return randomTask(random, `t${effects++}`)
    if (chance < 0.84) return { do: 'now' }
    if (chance < 0.85) return { do: 'blob', text: `text ${effects++}`.repeat(random() < 0.2 ? 40_000 : 1) }
    if (chance < 0.88) return { do: 'random' }
    if (chance < 0.92) return { do: 'note' }
    if (chance < 0.96 || depth > 0) return { do: 'fail' }
    if (chance < 0.98) return { do: 'both', acts: [oneAct(1), oneAct(1)] }
    const chain = (): Act => ({ do: 'chain', acts: Array.from({ length: 1 + Math.floor(random() * 3) }, () => oneAct(1)) })
    return { do: 'both', acts: Array.from({ length: 2 + Math.floor(random() * 2) }, chain) }
  }
  const count = 1 + Math.floor(random() * 4)
  const nodeOf = (id: string, more: Partial<PlanNode>, acts: readonly Act[]): PlanNode => ({
    id,
    capability,
    ...more,
    args: { acts: { from: 'const', value: acts as never } },
  })
  /** Of a node of a capability that is chosen before. */
  const acts = (): Act[] => Array.from({ length: 1 + Math.floor(random() * 3) }, () => oneAct(0))
  return Array.from({ length: count }, (_, i) => {
    const depends_on = Array.from({ length: i }, (_, j) => `n${j}`).filter(() => random() < 0.5)
    const chosen = only ?? pick(isBoss ? BOSS : CAPABILITIES)
    capability = chosen
    const own = acts()
    if (random() < 0.15) {
      // Some of the plan stays, this node among it, and a new end is put to it. What cannot be used is refused.
      const keep = Array.from({ length: count }, (_, j) => `n${j}`).filter((id) => id === `n${i}` || depends_on.includes(id) || random() < 0.6)
      own.splice(Math.floor(random() * (own.length + 1)), 0, { do: 'replan', keep, more: [nodeOf(`m${i}`, { depends_on: [`n${i}`], terminal: true }, acts())] })
    }
    return nodeOf(`n${i}`, { depends_on, terminal: i === count - 1 }, own)
  })
}
