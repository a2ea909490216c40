/**
 * Tells those who have registered what the journals of their runs say, from the record on that each has not had. What was taken is noted after it was sent: a
 * crash between the two has it told again, under the same id.
 */
import type { StateStore, WebhookAttempt, WebhookEvent } from 'svcdb'
import type { PushConfig } from 'svcdb/agents'
import type { Sealed } from '../record/record.ts'
import { recordsOf } from '../store/journal.ts'
import { pushEvent } from './event.ts'
import { advance, clear, duePushes, fail, MAX_PAUSE_MS, pushOf } from './store.ts'

const PAGE = 256
const BATCH = 64
const IN_FLIGHT = 16
const MAX_FAILURES = 32
const MAX_EXPONENT = 8
const MAX_REASON = 1024

export interface PushSenderTools {
  state: StateStore
  tenant: string
  /** One attempt. Does not throw. */
  send(config: PushConfig, event: WebhookEvent): Promise<WebhookAttempt>
  /** Milliseconds since the Unix epoch. */
  now(): number
  random(): number
  told(result: 'taken' | 'failed' | 'parked'): void
}

/** Milliseconds before the try after so many failures in a row, and half of it at least. @param asked what the receiver asks for. */
export function pauseAfter(failures: number, random: number, asked = 0): number {
  const whole = 2 ** Math.min(failures, MAX_EXPONENT) * 1000
  return Math.round(Math.max(whole * (1 - random / 2), Math.min(asked, MAX_PAUSE_MS)))
}

export class PushSender {
  private readonly tools: PushSenderTools

  constructor(tools: PushSenderTools) {
    this.tools = tools
  }

  /** Tells all whose time has come, as long as there are any. @throws what the store throws. */
  async drain(signal?: AbortSignal): Promise<void> {
    const { state, now } = this.tools
    for (;;) {
      const due = await duePushes(state, now(), PAGE)
      if (due.length === 0 || signal?.aborted) return
      const rest = due[Symbol.iterator]()
      const lane = async (): Promise<void> => {
        for (const each of rest) if (!signal?.aborted) await this.tell(each, signal)
      }
      await Promise.all(Array.from({ length: IN_FLIGHT }, lane))
    }
  }

  /** @returns undefined for a record that is told to nobody; one that cannot be read is not told before somebody has repaired it. */
  private async attempt(config: PushConfig, sealed: Sealed, seq: number): Promise<WebhookAttempt | undefined> {
    const { tenant, send, now } = this.tools
    let event: WebhookEvent | undefined
    try {
      event = pushEvent(tenant, sealed, now())
    } catch (error) {
      return { result: 'refused', reason: `record ${seq} of its run cannot be read: ${(error as Error).message}`.slice(0, MAX_REASON) }
    }
    return event === undefined ? undefined : send(config, event)
  }

  /** One batch of one registration. */
  private async tell({ run, id, key }: { run: string; id: string; key: string }, signal?: AbortSignal): Promise<void> {
    const { state, now, random, told } = this.tools
    const row = await pushOf(state, run, id)
    if (row?.due === undefined) return state.transaction((tx) => clear(tx, run, id, key))
    let next = row.next_seq
    for (const sealed of await recordsOf(state, run, next, BATCH)) {
      const attempt = await this.attempt(row.config, sealed, next)
      if (attempt !== undefined && attempt.result !== 'taken') {
        // It was broken off: the receiver has not failed.
        if (signal?.aborted) return
        const failures = (next > row.next_seq ? 0 : row.attempts) + 1
        const isOver = attempt.result === 'refused' || failures >= MAX_FAILURES
        const due = isOver ? undefined : now() + pauseAfter(failures, random(), attempt.retryAfterMs)
        told(isOver ? 'parked' : 'failed')
        await state.transaction(async (tx) => {
          if (next > row.next_seq) await advance(tx, run, id, next, now())
          await fail(tx, run, id, next, attempt.reason, due)
        })
        return
      }
      if (attempt !== undefined) told('taken')
      next++
    }
    await state.transaction((tx) => advance(tx, run, id, next, now()))
  }
}
