/** Records of one step in one phase: of its effects, how they began and ended, and of its waits. */
import type { AgentEvent, EffectDescription, Label, RecoveryMode, TaskDecision } from 'svcdb/agents'
import { joined, TASK_DECIDED } from 'svcdb/agents'
import type { Metered } from '../quota/meter.ts'
import { canonical } from '../record/canonical.ts'
import { effectKey, instant } from '../record/names.ts'
import type { JournalRecord, NewRecord } from '../record/record.ts'
import type { Wait } from '../store/waits.ts'
import { DECLARED, type Declared } from './attempt.ts'
import { type Phase, TASK } from './run-journal.ts'

export interface Asked extends Metered {
  /** Of the first attempt, when it was computed. */
  first?: string
  recovery: RecoveryMode
  ordinal: number
  maxAttempts: number
  probe?: EffectDescription['probe']
  declares: Declared
}

/** What the plane itself does. */
export function plain(kind: string, args: unknown, ordinal: number): Asked {
  return { kind, args, mutates: false, recovery: 'retry', ordinal, maxAttempts: 1, declares: DECLARED }
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
    const { ordinal, kind, args } = asked
    const key = effectKey({ step: this.step, phase: this.phase, ordinal, attempt, kind, args: canonical(args) })
    if (attempt === 1) asked.first = key
    return key
  }

  idempotencyKey(asked: Asked): string {
    return `${this.run}:${this.keyOf(asked, 1).slice(0, 32)}`
  }

  started(asked: Asked, key: string, attempt: number, backoff: number): NewRecord {
    const { kind, args, mutates, recovery, outboundBytes } = asked
    const mode = { mode: recovery, ...(recovery === 'idempotent' ? { key: this.idempotencyKey(asked) } : {}) }
    const rest = { mutates, attempt, backoff_ms: backoff, ...(outboundBytes === undefined ? {} : { outbound_bytes: outboundBytes }) }
    return { ...this.place, kind: 'EffectStarted', effectKey: key, payload: { descriptor: { kind, args }, recovery: mode, ...rest } }
  }

  done(key: string, output: unknown, { trust, sensitivity }: Declared, more: object = {}): NewRecord {
    return { ...this.place, kind: 'EffectDone', effectKey: key, payload: { output, declared: { trust, sensitivity }, ...more } }
  }

  failedForGood(key: string, error: string): NewRecord {
    return { ...this.place, kind: 'EffectFailed', effectKey: key, payload: { error: error.slice(0, 4096), disposition: 'did_not_happen', permanent: true } }
  }

  suspended(key: string, { until, event }: Wait): NewRecord {
    const reason = event === undefined ? { reason: 'awaiting_time', until: instant(until) } : { reason: 'awaiting_event', ...event, until: instant(until) }
    return { ...this.place, kind: 'RunSuspended', effectKey: key, payload: { reason } }
  }

  /** @param kind of the effect that waited. */
  endOfWait(kind: string, key: string, { event, until }: Wait, arrived: AgentEvent | undefined): NewRecord {
    if (arrived !== undefined) {
      const { source, payload, label } = arrived
      if (event?.kind !== TASK_DECIDED) return this.done(key, arrived, label ?? DECLARED, { source })
      const { decided_by: actor, basis } = payload as unknown as TaskDecision
      return this.done(key, kind === TASK ? payload : arrived, label ?? DECLARED, { source, by: { actor, basis } })
    }
    if (event === undefined) return this.done(key, null, DECLARED)
    return this.failedForGood(key, `no event "${event.kind}" has come by ${instant(until)}`)
  }
}

/** The label of a step that has read what a record has. */
export function havingRead(label: Label, { payload }: JournalRecord, provenance: string[]): Label {
  const { trust, sensitivity } = (payload.declared ?? DECLARED) as Declared
  return joined(label, { provenance, trust, sensitivity })
}

/** Who decided, or where an event came from. */
export function provenanceOf({ payload }: JournalRecord): string[] {
  const { by, source, output } = payload as { by?: { actor: string }; source: string; output: AgentEvent }
  return by === undefined ? (output.label?.provenance ?? [`event:${source}`]) : [`person:${by.actor}`]
}
