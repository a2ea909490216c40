/** What must hold of cases after a life: everything that the rows say follows from what the journals say was done, and the other way round. */
import assert from 'node:assert/strict'
import type { StateStore } from 'svcdb'
import type { CaseStatus, Json } from 'svcdb/agents'
import { type CaseRow, caseFaults, caseIds, caseOf, runsOfCase } from '../cases/case-store.ts'
import { holdOf, releasedHolds } from '../cases/holds.ts'
import { deadlineFaults, deadlinesOf } from '../cases/obligations.ts'
import { verifyLog } from '../log/verify.ts'
import { type JournalRecord, verified } from '../record/record.ts'
import { headOf, recordsOf } from '../store/journal.ts'
import { runsOf, statusOf } from '../store/runs.ts'

const ALL = Number.POSITIVE_INFINITY

/** What was done to one case, by all journals. */
interface Told {
  bound: Set<string>
  opened: number
  /** By the version that came of it. */
  puts: Map<number, Json>
  moves: Map<number, CaseStatus>
  escalations: number
  registered: Map<string, Set<string>>
  /** States that an obligation got to, in no order. */
  states: Map<string, string[]>
  releases: string[]
}

/** @param now milliseconds since the Unix epoch: of a sweep that found nothing. @param admitted runs that were begun. */
export async function judgeCases(disk: StateStore, now: number, admitted: ReadonlySet<string>): Promise<void> {
  const told = new Map<string, Told>()
  const of = (id: string): Told => {
    const one = told.get(id) ?? newTold()
    told.set(id, one)
    return one
  }
  const runs = (await disk.list({ prefix: 'head/' })).map(({ key }) => key.slice('head/'.length))
  for (const run of runs) {
    const records = verified(run, await recordsOf(disk, run), await headOf(disk, run))
    const status = await statusOf(disk, run)
    if (!admitted.has(run)) assert.match(status ?? 'none', /^(swept|hold-released|halt-lifted)$/, `${run} was not begun, and is ${status}`)
    read(records, of)
  }
  const ids = await caseIds(disk, undefined, ALL)
  assert.deepEqual([...told.keys()].sort(), ids, 'there are the cases that journals speak of, and no others')
  const held: string[] = []
  for (const id of ids) {
    assert.deepEqual([...(await caseFaults(disk, id)), ...(await deadlineFaults(disk, id))], [], id)
    const row = (await caseOf(disk, id)) as CaseRow
    if (row.status !== 'closed') held.push(...row.correlation.map(({ value }) => value))
    judge(row, of(id), await runsOfCase(disk, id, ALL))
    await judgeDeadlines(disk, id, of(id), now)
    const released = (await releasedHolds(disk, ALL)).filter((hold) => hold.case === id)
    assert.deepEqual(released.map(({ record }) => record).sort(), of(id).releases.sort())
    const order = (await disk.list<string>({ prefix: 'hold-order/' })).filter(({ value }) => value === id)
    assert.equal(order.length, (await holdOf(disk, id)) === undefined ? 0 : 1, `the hold of ${id} is listed as it stands`)
  }
  assert.equal(new Set(held).size, held.length, 'a key has one open case')
  assert.equal((await disk.list({ prefix: 'case-key/' })).length, held.length, 'and closed ones have none')
  const { faults, waiting } = await verifyLog(disk)
  assert.deepEqual({ faults, waiting }, { faults: [], waiting: 0 })
  for (const run of await runsOf(disk, 'hold-released', ALL)) assert.equal((await headOf(disk, run)).seq, 1, 'a release is the only record of its run')
}

function newTold(): Told {
  return {
    bound: new Set(),
    opened: 0,
    puts: new Map(),
    moves: new Map(),
    escalations: 0,
    registered: new Map(),
    states: new Map(),
    releases: [],
  }
}

function read(records: readonly JournalRecord[], of: (id: string) => Told): void {
  const asked = new Map<string, { kind: string; args: Json }>()
  const own = records[0].case
  for (const { kind, payload, run, case: id, effectKey = '' } of records) {
    if (kind === 'EffectStarted') asked.set(effectKey, payload.descriptor as { kind: string; args: Json })
    if (id === undefined) continue
    const one = of(id)
    const note = (name: string, state: string) => one.states.set(name, [...(one.states.get(name) ?? []), state])
    if (records[0].kind === 'RunAdmitted') assert.equal(id, own, `all records of ${run} are of its case`)
    if (kind === 'CaseBound') {
      one.bound.add(run)
      if (payload.opened === true) one.opened++
    } else if (kind === 'DeadlineRegistered') {
      const name = payload.name as string
      one.registered.set(name, new Set([...(one.registered.get(name) ?? []), payload.resolved_at as string]))
    } else if (kind === 'DeadlineTransition') note(payload.name as string, payload.to as string)
    else if (kind === 'HoldReleased') one.releases.push(run)
    else if (kind === 'Swept') {
      const { subject, action } = payload as { subject: string; action: string }
      if (action === 'case_escalated') one.escalations++
      else note(subject.slice(id.length + 1), action === 'deadline_warned' ? 'warned' : 'breached')
    } else if (kind === 'EffectDone') {
      const { kind: effect, args } = asked.get(effectKey) as { kind: string; args: Json }
      if (effect === 'svc.put_case_state') {
        const version = payload.output as number
        assert.ok(!one.puts.has(version), `one write of ${id} came to version ${version}`)
        one.puts.set(version, (args as { state: Json }).state)
      } else if (effect === 'svc.set_case_status') {
        const { from, version } = payload.output as { from: string; version: number }
        if (from !== args) one.moves.set(version, args as CaseStatus)
      }
    }
  }
}

function judge(row: CaseRow, { bound, opened, puts, moves, escalations }: Told, runs: readonly string[]): void {
  const { id, version } = row
  assert.equal(opened, 1, `${id} was opened once`)
  assert.deepEqual([...runs], [...bound].sort(), `${id} has the runs that were admitted to it`)
  const missing = Array.from({ length: version }, (_, i) => i + 1).filter((one) => !puts.has(one) && !moves.has(one))
  assert.equal(puts.size + moves.size + escalations, version, `each write of ${id} raised its version`)
  assert.equal(missing.length, escalations, `what no run wrote of ${id}, sweeps did`)
  const state = puts.size === 0 ? null : (puts.get(Math.max(...puts.keys())) as Json)
  assert.deepEqual(row.state, state, `${id} has the state of its last write`)
  for (const [at, text] of puts) {
    const before = Math.max(-1, ...[...puts.keys()].filter((one) => one < at))
    assert.deepEqual((text as Json[]).slice(0, -1), puts.get(before) ?? [], `no write of ${id} was lost at version ${at}`)
  }
  const last = Math.max(0, ...moves.keys(), ...missing)
  assert.equal(row.status, last === 0 ? 'open' : (moves.get(last) ?? 'escalated'), `${id} has the status of its last change`)
}

async function judgeDeadlines(disk: StateStore, id: string, { registered, states }: Told, now: number): Promise<void> {
  const rows = await deadlinesOf(disk, id)
  assert.deepEqual(rows.map(({ name }) => name).sort(), [...registered.keys()].sort(), `${id} has the obligations that were registered`)
  const status = (await caseOf(disk, id))?.status
  for (const { name, resolved, warn = Number.POSITIVE_INFINITY, state } of rows) {
    const where = `${id}/${name}`
    assert.deepEqual([...(registered.get(name) ?? [])].map(Date.parse), [resolved], `${where}: computed once`)
    const passed = states.get(name) ?? []
    const over = passed.filter((one) => one !== 'warned')
    assert.ok(over.length <= 1 && passed.length - over.length <= 1, `${where}: ${passed}`)
    assert.equal(state, over[0] ?? passed[0] ?? 'pending', `${where} stands as the journals say`)
    const isOpen = over.length === 0
    assert.ok(!isOpen || resolved > now, `${where} is late, and not breached`)
    assert.ok(state !== 'pending' || warn > now, `${where} was not warned of`)
    assert.ok(!isOpen || status !== 'closed', `${where} is open, and its case is closed`)
  }
}
