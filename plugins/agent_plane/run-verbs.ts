/** `svc plane waiting`, `cancel`, `reconcile` and `quarantine`: on a running node, over the operator API. */
import type { CommandCall } from 'svcdb'
import { askApi } from './api-client.ts'
import { hasReason, said } from './case-verbs.ts'

const USAGE = 2

export async function waiting(call: CommandCall): Promise<number> {
  return said(call, await askApi(call, '/runs/waiting'))
}

export async function cancel(call: CommandCall, run: string): Promise<number> {
  if (!hasReason(call, 'cancel')) return USAGE
  return said(call, await askApi(call, `/runs/${encodeURIComponent(run)}/cancel`, { reason: call.flags.reason }))
}

/** With --output what the effect gave, which says that it landed; without it that it did not happen. */
export async function reconcile(call: CommandCall, run: string, effect: string): Promise<number> {
  const { output, note = '' } = call.flags
  let settled: object = { disposition: 'did_not_happen' }
  try {
    if (output !== undefined) settled = { disposition: 'landed', output: JSON.parse(output) as unknown }
  } catch (error) {
    call.err(`svc: cannot use --output: it is not JSON: ${(error as Error).message}\n`)
    return USAGE
  }
  return said(call, await askApi(call, `/runs/${encodeURIComponent(run)}/reconcile`, { effect, note, ...settled }))
}

export async function quarantine(call: CommandCall, run: string, decision: string): Promise<number> {
  if (decision !== 'reopen' && decision !== 'abandon') {
    call.err(`svc: cannot decide ${JSON.stringify(decision)}: write svc plane quarantine RUN reopen or abandon\n`)
    return USAGE
  }
  if (!hasReason(call, decision)) return USAGE
  return said(call, await askApi(call, `/runs/${encodeURIComponent(run)}/${decision}`, { reason: call.flags.reason }))
}
