/** What receivers are told of a record: no inputs and outputs, only how the run stands. Pure. */
import type { WebhookEvent } from 'svcdb'
import { decode, type Sealed } from '../record/record.ts'

const PREFIX = 'io.svc.run.'

/** @param now of the telling, milliseconds since the Unix epoch: records have no time. @returns undefined for records that are told to nobody. */
export function pushEvent(tenant: string, { raw }: Sealed, now: number): WebhookEvent | undefined {
  const { kind, run, seq, payload } = decode(raw)
  const told = toldOf(kind, payload)
  if (told === undefined) return undefined
  const { type, ...data } = told
  return { id: `${run}/${seq}`, source: `/svc/plane/${tenant}`, type: `${PREFIX}${type}`, time: now, subject: run, data: { run, seq, ...data } }
}

function toldOf(kind: string, payload: Record<string, unknown>): ({ type: string } & Record<string, unknown>) | undefined {
  const { outcome, reason, exhaustion, capability } = payload
  if (kind === 'RunAdmitted') return { type: 'admitted', status: 'running', capability }
  if (kind === 'RunSuspended') return { type: 'suspended', status: 'suspended', waiting_for: reason }
  if (kind !== 'RunConcluded') return undefined
  const more = { ...(reason === undefined ? {} : { reason }), ...(exhaustion === undefined ? {} : { exhaustion }) }
  return { type: outcome === 'succeeded' ? 'completed' : (outcome as string), status: outcome, ...more }
}
