/** One attempt at an effect: what it gave or why it failed, what it has cost, and the pause before the next one. */
import { type EffectCall, EffectError, type Json, type Label, type Spend } from 'svcdb/agents'
import { traced } from 'svcdb/lib/trace'
import { canonical } from '../record/canonical.ts'
import { MAX_CONTENT_BYTES } from '../record/record.ts'
import { shortened } from '../record/text.ts'

const FIRST_DELAY_MS = 100
const MAX_DELAY_MS = 10_000
/** What the record of an effect says of what it gave. */
export type Declared = Pick<Label, 'trust' | 'sensitivity'>
export const DECLARED: Declared = { trust: 'untrusted', sensitivity: 'internal' }

interface Tried {
  kind: string
  mutates: boolean
  declares: Declared
}

/** The pause after so many failures: doubled each time, half of it by a chance that follows from the key. */
export function delayOf(key: string, failures: number): number {
  const whole = Math.min(FIRST_DELAY_MS * 2 ** Math.max(0, failures - 1), MAX_DELAY_MS)
  return Math.round(whole * (0.5 + Number.parseInt(key.slice(0, 8), 16) / 2 ** 33))
}

interface Ended {
  kind: 'EffectDone' | 'EffectFailed'
  payload: Record<string, unknown>
  retryAfterMs?: number
}

/** An attempt, and what it has cost. */
export interface MeteredCall extends EffectCall {
  readonly used: Required<Spend>
}

export function addTo(used: Required<Spend>, more: Spend): void {
  for (const unit of ['tokens', 'minor_units'] as const) {
    const { [unit]: amount = 0 } = more
    if (!Number.isSafeInteger(amount) || amount < 0) throw new Error(`cannot count ${unit} of ${amount}: they are a whole number`)
    used[unit] += amount
  }
}

/** Members of a record: nothing where nothing was spent. */
export function spendOf({ tokens, minor_units }: Required<Spend>): { spend?: Spend } {
  return tokens + minor_units === 0 ? {} : { spend: { ...(tokens === 0 ? {} : { tokens }), ...(minor_units === 0 ? {} : { minor_units }) } }
}

export async function outcomeOf<T extends Json>({ mutates, kind, declares }: Tried, call: EffectCall, act: (call: EffectCall) => Promise<T>): Promise<Ended> {
  let output: T
  try {
    output = await traced(`effect ${kind}`, () => act(call), { kind: 'client', attributes: { 'svc.attempt': call.attempt } })
  } catch (error) {
    const known = error instanceof EffectError ? error : new EffectError(textOf(error), { disposition: mutates ? 'in_doubt' : 'did_not_happen' })
    const { disposition, permanent, retryAfterMs } = known
    const payload = { error: shortened(known.message, 4096), disposition, ...(permanent ? { permanent } : {}) }
    return { kind: 'EffectFailed', payload, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) }
  }
  try {
    const text = canonical(output ?? null)
    if (Buffer.byteLength(text) > MAX_CONTENT_BYTES) throw new Error(`it has more than ${MAX_CONTENT_BYTES} bytes`)
    return { kind: 'EffectDone', payload: { output: JSON.parse(text), declared: declares } }
  } catch (error) {
    return { kind: 'EffectFailed', payload: { error: `what effect "${kind}" gave cannot be kept: ${textOf(error)}`, disposition: 'landed', permanent: true } }
  }
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
