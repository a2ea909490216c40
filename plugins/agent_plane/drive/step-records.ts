/** Records of one step in one phase: of its effects, how they began and ended, and of its waits. */
import type { AgentEvent, EffectDescription, Label, RecoveryMode, Sensitivity, Sink, TaskDecision } from 'svcdb/agents'
import { joined, SENSITIVITIES, TASK_DECIDED } from 'svcdb/agents'
import type { Metered } from '../quota/meter.ts'
import { canonical } from '../record/canonical.ts'
import { effectKey, instant } from '../record/names.ts'
import { type JournalRecord, MAX_CONTENT_BYTES, type NewRecord } from '../record/record.ts'
import { shortened } from '../record/text.ts'
import type { Wait } from '../store/waits.ts'
import { DECLARED, type Declared } from './attempt.ts'
import { type Phase, TASK } from './run-journal.ts'

export interface Asked extends Metered {
  /** Of the first attempt, when it was computed. */
  first?: string
  /** Canonical text of the arguments, and of what a record says that it is. */
  readonly text: string
  readonly descriptor: string
  recovery: RecoveryMode
  ordinal: number
  maxAttempts: number
  probe?: EffectDescription['probe']
  declares: Declared
}

const MAX_ATTEMPTS = 3
/** What begins so is the plane's. */
export const OWN_KINDS = 'svc.'

/** @throws Error for a description that is none. */
export function checkEffect({ kind, mutates, recovery = mutates ? 'requires_operator' : 'retry', probe }: EffectDescription): void {
  if (kind.startsWith(OWN_KINDS) || kind === '')
    throw new Error(`cannot begin an effect of kind "${kind}": kinds have a name, and "${OWN_KINDS}" is the plane's; choose another`)
  if ((recovery === 'reconcile') !== (probe !== undefined))
    throw new Error(`cannot begin effect "${kind}": a probe goes with recovery "reconcile", and only with it`)
}

/** Behind it there is no date, milliseconds since the Unix epoch; what is counted from now has to end before. */
const MAX_WAIT_MS = 8.6e15

/** @param ms since the Unix epoch, or from now. @throws Error where no record can have the end of such a wait. */
export function checkWait(ms: number): void {
  if (!(Math.abs(ms) <= MAX_WAIT_MS)) throw new Error(`cannot wait for or until ${ms}: give milliseconds, ${MAX_WAIT_MS} at most`)
}

/** Asked before anything is begun, so that the code of a step gets it as an answer. @param text canonical. @throws Error for what no record can have. */
export function checkContent(what: string, text: string): void {
  const bytes = Buffer.byteLength(text)
  if (bytes > MAX_CONTENT_BYTES)
    throw new Error(`cannot keep ${what}: ${bytes} bytes are more than the ${MAX_CONTENT_BYTES} of a record; keep it as a blob, or elsewhere, and name it`)
}

/** @param text canonical, of its arguments. @throws Error for a description that is none. */
export function askedOf(effect: EffectDescription, ordinal: number, text = canonical(effect.args)): Asked {
  checkEffect(effect)
  checkContent(`the arguments of effect "${effect.kind}"`, text)
  const { kind, mutates, probe, maxAttempts = MAX_ATTEMPTS, spends, outboundBytes, grant, declares } = effect
  return {
    kind,
    args: JSON.parse(text),
    text,
    descriptor: descriptorOf(kind, text),
    mutates,
    recovery: effect.recovery ?? (mutates ? 'requires_operator' : 'retry'),
    ordinal,
    maxAttempts,
    declares: declares === undefined ? DECLARED : { ...DECLARED, ...declares },
    ...(probe === undefined ? {} : { probe }),
    ...(spends === undefined ? {} : { spends }),
    ...(outboundBytes === undefined ? {} : { outboundBytes }),
    ...(grant === undefined ? {} : { grant }),
  }
}

/** @param read the label of all that the step has read. */
export function askedOfSink(sink: Sink, read: Label, ordinal: number): Asked {
  const { accepts, acceptsUntrusted, label = read, mutates = true, ...effect } = sink
  const asked = askedOf({ ...effect, mutates, outboundBytes: Buffer.byteLength(canonical(effect.args)) }, ordinal)
  const refusal = sinkRefusal(label, accepts, acceptsUntrusted ?? !mutates)
  const releases = { resource: asked.grant ?? asked.kind, label }
  return { ...asked, outboundLabel: label, releases, ...(refusal === undefined ? {} : { refusal }) }
}

/** Why a value may not go somewhere; undefined = it may. */
function sinkRefusal({ sensitivity, trust, provenance }: Label, accepts: Sensitivity, untrusted: boolean): string | undefined {
  if (!SENSITIVITIES.includes(accepts)) throw new Error(`cannot send: ${JSON.stringify(accepts)} is no sensitivity; it is one of ${SENSITIVITIES.join(', ')}`)
  if (SENSITIVITIES.indexOf(sensitivity) > SENSITIVITIES.indexOf(accepts)) return `the value is ${sensitivity}, and ${accepts} is the most that may go there`
  if (trust === 'trusted' || untrusted) return undefined
  return `the value comes from outside (${provenance.slice(0, 8).join(', ') || 'nobody knows where'}), which may not go there; have a person release it`
}

/** What the plane itself does. */
export function plain(kind: string, args: unknown, ordinal: number): Asked {
  let written: string | undefined
  return {
    kind,
    args,
    // Not before it is needed: what has no form as JSON fails there.
    get text() {
      written ??= canonical(args)
      return written
    },
    get descriptor() {
      return descriptorOf(kind, this.text)
    },
    mutates: false,
    recovery: 'retry',
    ordinal,
    maxAttempts: 1,
    declares: DECLARED,
  }
}

/** As canonical JSON has it. @param args canonical text. */
export function descriptorOf(kind: string, args: string): string {
  return `{"args":${args},"kind":${canonical(kind)}}`
}

export class StepRecords {
  private readonly run: string
  private readonly step: number
  private readonly phase: Phase

  constructor(run: string, step: number, phase: Phase) {
    this.run = run
    this.step = step
    this.phase = phase
  }

  get place(): Pick<NewRecord, 'step' | 'phase'> & { step: number } {
    return { step: this.step, ...(this.phase === 'forward' ? {} : { phase: this.phase }) }
  }

  keyOf(asked: Asked, attempt: number): string {
    if (attempt === 1 && asked.first !== undefined) return asked.first
    const { ordinal, kind, text: args } = asked
    const key = effectKey({ step: this.step, phase: this.phase, ordinal, attempt, kind, args })
    if (attempt === 1) asked.first = key
    return key
  }

  idempotencyKey(asked: Asked): string {
    return `${this.run}:${this.keyOf(asked, 1).slice(0, 32)}`
  }

  started(asked: Asked, key: string, attempt: number, backoff: number): NewRecord {
    const { kind, args, mutates, recovery, outboundBytes, outboundLabel } = asked
    const mode = { mode: recovery, ...(recovery === 'idempotent' ? { key: this.idempotencyKey(asked) } : {}) }
    const rest = { mutates, attempt, backoff_ms: backoff, ...(outboundBytes === undefined ? {} : { outbound_bytes: outboundBytes }) }
    const label = outboundLabel === undefined ? {} : { outbound_label: outboundLabel }
    return { ...this.place, kind: 'EffectStarted', effectKey: key, payload: { descriptor: { kind, args }, recovery: mode, ...rest, ...label } }
  }

  done(key: string, output: unknown, { trust, sensitivity }: Declared, more: object = {}): NewRecord {
    return { ...this.place, kind: 'EffectDone', effectKey: key, payload: { output, declared: { trust, sensitivity }, ...more } }
  }

  failedForGood(key: string, error: string): NewRecord {
    return { ...this.place, kind: 'EffectFailed', effectKey: key, payload: { error: shortened(error, 4096), disposition: 'did_not_happen', permanent: true } }
  }

  suspended(key: string, { until, event }: Wait): NewRecord {
    const reason = event === undefined ? { reason: 'awaiting_time', until: instant(until) } : { reason: 'awaiting_event', ...event, until: instant(until) }
    return { ...this.place, kind: 'RunSuspended', effectKey: key, payload: { reason } }
  }

  /** @param kind of the effect that waited. */
  endOfWait(kind: string, key: string, { event, until }: Wait, arrived: AgentEvent | undefined): NewRecord {
    if (arrived !== undefined) {
      const { source, payload, label } = arrived
      const problem = problemOf(arrived)
      if (problem !== undefined) return this.failedForGood(key, `cannot take the event "${arrived.kind}": ${problem}`)
      if (event?.kind !== TASK_DECIDED) return this.done(key, arrived, label ?? DECLARED, { source })
      const { decided_by: actor, basis } = payload as unknown as TaskDecision
      return this.done(key, kind === TASK ? payload : arrived, label ?? DECLARED, { source, by: { actor, basis } })
    }
    if (event === undefined) return this.done(key, null, DECLARED)
    return this.failedForGood(key, `no event "${event.kind}" has come by ${instant(until)}`)
  }
}

/** Why no record can have it. */
function problemOf(arrived: AgentEvent): string | undefined {
  try {
    const bytes = Buffer.byteLength(canonical(arrived))
    return bytes > MAX_CONTENT_BYTES ? `its ${bytes} bytes are more than the ${MAX_CONTENT_BYTES} of a record` : undefined
  } catch (error) {
    return (error as Error).message
  }
}

/** The label of a step that has read what a record has. */
export function havingRead(label: Label, { payload }: JournalRecord, provenance: string[]): Label {
  const { trust, sensitivity } = (payload.declared ?? DECLARED) as Declared
  const isCovered = (trust === label.trust || label.trust === 'untrusted') && SENSITIVITIES.indexOf(sensitivity) <= SENSITIVITIES.indexOf(label.sensitivity)
  if (isCovered && provenance.every((one) => label.provenance.includes(one))) return label
  return joined(label, { provenance, trust, sensitivity })
}

/** Who decided, or where an event came from. */
export function provenanceOf({ payload }: JournalRecord): string[] {
  const { by, source, output } = payload as { by?: { actor: string }; source: string; output: AgentEvent }
  return by === undefined ? (output.label?.provenance ?? [`event:${source}`]) : [`person:${by.actor}`]
}
