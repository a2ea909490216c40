/**
 * `svc plane acknowledge`, `hold` and `drill`. The first two act on a running node; the drill reads the store, while a server runs or not, and keeps its
 * verdict with --actor, when none runs.
 */
import type { CommandCall, StateReader } from 'svcdb'
import { DEFAULT_TENANT, type DrillView } from 'svcdb/agents'
import { type ApiAnswer, askApi } from './api-client.ts'
import { type AtOnce, rehearse } from './cases/drill.ts'
import { checkpointOf, isSealed } from './log/log.ts'
import { verifyLog } from './log/verify.ts'
import { drillView, originOf } from './operate/cases.ts'

const OK = 0
const NEGATIVE = 1
const USAGE = 2
const OPERATIONAL = 4
/** Not there, in another state, another than was seen. */
const NO: ReadonlySet<number> = new Set([404, 409, 412])
/** How often a case is read again that a server writes meanwhile, before a fault is one. */
const LOOKS = 3

export async function acknowledge(call: CommandCall, id: string, obligation: string): Promise<number> {
  return said(call, await askApi(call, '/obligations/acknowledge', { case: id, obligation, note: call.flags.note ?? '' }))
}

/** Whether --reason says something. Else that is wrong about how the verb is used. */
export function hasReason({ flags, err }: CommandCall, verb: string): boolean {
  if ((flags.reason ?? '').trim() !== '') return true
  err(`svc: cannot ${verb} without a reason: write --reason TEXT\n`)
  return false
}

/** Places a hold with --reason, ends it with --release, and lists without a case. */
export async function hold(call: CommandCall, id: string | undefined): Promise<number> {
  const { flags } = call
  if (id === undefined) return said(call, await askApi(call, flags.released === undefined ? '/holds' : '/holds?state=released'))
  if (flags.release !== undefined) return said(call, await askApi(call, '/holds/release', { case: id }))
  if (!hasReason(call, 'hold')) return USAGE
  return said(call, await askApi(call, '/holds', { case: id, reason: flags.reason }))
}

/** A refusal for what the store says is negative; one for who asks, or for the server's fault, is not possible. */
export function said({ out, err }: CommandCall, { status, body }: ApiAnswer<object>): number {
  if (status < 300) {
    out(`${JSON.stringify(body)}\n`)
    return OK
  }
  err(`svc: ${body.error ?? `the node answered ${status}`}\n`)
  return NO.has(status) ? NEGATIVE : OPERATIONAL
}

/** Drills the store of a node that is stopped, and keeps the verdict, which `/drill` and attention then go by. @returns 1 for a finding. */
export async function drillKept(call: CommandCall): Promise<number> {
  const { status, body } = await askApi<DrillView & { first?: string[]; findings?: number }>(call, '/drill', {})
  const { first = [], ...verdict } = body
  for (const finding of first) call.err(`finding: ${finding}\n`)
  const code = said(call, { status, body: verdict })
  return code === OK && verdict.findings !== 0 ? NEGATIVE : code
}

/** Prints what it finds. Nothing is kept. @returns 1 for a finding. */
export async function drillStore({ out, err, flags }: CommandCall, state: StateReader): Promise<number> {
  const atOnce: AtOnce = async (body) => {
    let seen = await body(state)
    for (let looks = 1; looks < LOOKS && Array.isArray(seen) && seen.length > 0; looks++) seen = await body(state)
    return seen
  }
  const verdict = await rehearse(state, atOnce, originOf(flags.tenant ?? DEFAULT_TENANT), Date.now())
  for (const finding of verdict.first) err(`finding: ${finding}\n`)
  out(`${JSON.stringify(drillView(verdict))}\n`)
  return verdict.findings === 0 ? OK : NEGATIVE
}

/** Holds the log against the journals, or one run against the log. @returns what to print, and faults. */
export async function logOf(state: StateReader, tenant: string, only: string | undefined): Promise<{ text: string; faults: string[] }> {
  if (only !== undefined) return { text: (await isSealed(state, only)) ? 'it is in the log' : 'it is not in the log', faults: [] }
  const { waiting, faults } = await verifyLog(state)
  const { origin, size, root } = await checkpointOf(state, originOf(tenant))
  return { text: `log ${origin}: ${size} entries, ${waiting} waiting, root ${root}`, faults }
}
