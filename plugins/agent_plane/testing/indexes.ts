/** Whatever is found by an index is what a scan finds: after a life every row that leads to another one is there because of that one, and none is missing. */
import assert from 'node:assert/strict'
import type { StateReader } from 'svcdb'
import type { AgentEvent, CorrelationKey, Task } from 'svcdb/agents'
import type { CaseRow } from '../cases/case-store.ts'
import type { HoldRow } from '../cases/holds.ts'
import type { DeadlineRow } from '../cases/obligations.ts'
import { RunJournal } from '../drive/run-journal.ts'
import type { PushRow } from '../push/store.ts'
import { digest, newestFirst } from '../record/names.ts'
import type { LeaseRow } from '../store/leases.ts'
import { FINAL, type Status } from '../store/runs.ts'
import type { Wait } from '../store/waits.ts'
import { indexKeys } from '../tasks/store.ts'

const INDEXES =
  /^(index|quota\/slot|waiting|waiter|found|push\/due|push\/parked|case-status|case-key|due|breach|hold-order|log\/pending|task_queue|task_due|task_late|task_run)\//

type Rows = Map<string, unknown>

/** @param disk of a plane where nothing is under way. @throws AssertionError naming the rows that differ. */
export async function judgeIndexes(disk: StateReader): Promise<void> {
  const rows: Rows = new Map((await disk.list()).map(({ key, value }) => [key, value]))
  const expected = [...(await ofRuns(rows, disk)), ...ofEvents(rows), ...ofPushes(rows), ...ofCases(rows)]
  for (const [, task] of below<Task>(rows, 'task/')) expected.push(...indexKeys(task))
  const found = [...rows.keys()].filter((key) => INDEXES.test(key))
  assert.deepEqual(found.sort(), expected.sort(), 'indexes have what a scan finds')
}

/** Rows of a prefix, with what is behind it. */
function below<T>(rows: Rows, prefix: string): [rest: string, value: T][] {
  return [...rows].filter(([key]) => key.startsWith(prefix)).map(([key, value]) => [key.slice(prefix.length), value as T])
}

const instant = (ms: number): string => String(Math.floor(ms)).padStart(16, '0')

async function ofRuns(rows: Rows, disk: StateReader): Promise<string[]> {
  const keys: string[] = []
  for (const [run, status] of below<Status>(rows, 'status/')) {
    keys.push(`index/${status}/${newestFirst(run)}`)
    if (rows.get(`lease/${run}`) !== undefined && (rows.get(`lease/${run}`) as LeaseRow).holder !== undefined) keys.push(`quota/slot/${run}`)
    if (status === 'failed' && (await hasStandingWork(disk, run))) keys.push(`index/failed_landed/${newestFirst(run)}`)
    if (FINAL.has(status) && !rows.has(`log/run/${run}`)) keys.push(`log/pending/${run}`)
    const ends = below<Wait>(rows, `wait/${run}/`).map(([, { until }]) => until)
    if (status === 'suspended' && ends.length > 0) keys.push(`waiting/${instant(Math.min(...ends))}/${run}`)
  }
  return keys
}

async function hasStandingWork(disk: StateReader, run: string): Promise<boolean> {
  const journal = await RunJournal.read(disk, run)
  return [...journal.steps].some(([step, { compensated }]) => !compensated && journal.hasLanded(step))
}

const bucket = (kind: string, key: CorrelationKey | undefined): string =>
  digest('svc.wait.v1', [kind, key === undefined ? null : { namespace: key.namespace, value: key.value }])

function ofEvents(rows: Rows): string[] {
  const keys: string[] = []
  for (const [place, { event, any, run, key }] of below<Wait>(rows, 'wait/')) {
    // What has come for it is not waited for any more.
    if (event === undefined || rows.has(`inbox/${place}`)) continue
    const by = any && event.correlation.length > 0 ? event.correlation : [event.correlation.at(0)]
    for (const one of by) keys.push(`waiter/${bucket(event.kind, one)}/${run}/${key}`)
  }
  const buffered = below<{ event: AgentEvent; bytes: number }>(rows, 'buffer/')
  const sum = buffered.reduce(({ events, bytes }, [, one]) => ({ events: events + 1, bytes: bytes + one.bytes }), { events: 0, bytes: 0 })
  assert.deepEqual(rows.get('buffered') ?? { events: 0, bytes: 0 }, sum, 'what is kept is counted')
  for (const [place, { event }] of buffered) for (const one of [undefined, ...event.correlation]) keys.push(`found/${bucket(event.kind, one)}/${place}`)
  return keys
}

function ofPushes(rows: Rows): string[] {
  return below<PushRow>(rows, 'push/of/').flatMap(([place, { due, parked }]) => [
    ...(due === undefined ? [] : [`push/due/${instant(due)}/${place}`]),
    ...(parked ? [`push/parked/${place}`] : []),
  ])
}

function ofCases(rows: Rows): string[] {
  const keys: string[] = []
  for (const [id, { status, correlation }] of below<CaseRow>(rows, 'case/')) {
    keys.push(`case-status/${status}/${newestFirst(id)}`)
    if (status !== 'closed') for (const { namespace, value } of correlation) keys.push(`case-key/${digest('svc.case.key.v1', [namespace, value])}`)
  }
  for (const [place, { state, warn, resolved, acknowledged }] of below<DeadlineRow>(rows, 'deadline/')) {
    if (state === 'pending' || state === 'warned') keys.push(`due/${instant(state === 'pending' && warn !== undefined ? warn : resolved)}/${place}`)
    if (state === 'breached' && acknowledged === undefined) keys.push(`breach/${instant(resolved)}/${place}`)
  }
  for (const [id, { placed }] of below<HoldRow>(rows, 'hold/')) keys.push(`hold-order/${instant(placed)}/${id}`)
  return keys
}
