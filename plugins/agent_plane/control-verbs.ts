/** `svc plane attention`, `halt` and `rearm`: on a running node, over the operator API. */
import type { CommandCall } from 'svcdb'
import { askApi } from './api-client.ts'
import { hasReason, said } from './case-verbs.ts'

const OK = 0
const FINDING = 1
const USAGE = 2
const PARTIAL = 5

interface Attention {
  needs_attention: boolean
  not_checked: string[]
}

/** @returns 1 when something needs a person; 5 when nothing does, and not all could be looked at. */
export async function attention(call: CommandCall): Promise<number> {
  const answer = await askApi<Attention>(call, '/attention')
  const status = said(call, answer)
  if (status !== OK) return status
  if (answer.body.needs_attention) return FINDING
  return answer.body.not_checked.length > 0 ? PARTIAL : OK
}

/** Halts a scope for --reason, lifts its halt with --lift, and lists without a scope. */
export async function halt(call: CommandCall, scope: string | undefined): Promise<number> {
  const { reason, lift, lifted } = call.flags
  if (scope === undefined) {
    if (reason === undefined && lift === undefined) return said(call, await askApi(call, lifted === undefined ? '/halts' : '/halts?state=lifted'))
    call.err('svc: cannot halt: name a scope: tenant, agent:NAME, revision:DIGEST or subject:PRINCIPAL\n')
    return USAGE
  }
  if (lift === undefined) return hasReason(call, 'halt') ? said(call, await askApi(call, '/halts', { scope, reason })) : USAGE
  return unless(call, await askApi<{ was_standing: boolean }>(call, '/halts/lift', { scope }), 'was_standing')
}

export async function rearm(call: CommandCall, run: string, id: string): Promise<number> {
  return unless(call, await askApi<{ rearmed: boolean }>(call, '/push/rearm', { run, id }), 'rearmed')
}

/** An answer is negative that says that there was nothing to do. */
function unless<K extends string>(call: CommandCall, answer: { status: number; body: { [key in K]: boolean } & { error?: string } }, member: K): number {
  const status = said(call, answer)
  return status === OK && !answer.body[member] ? FINDING : status
}
