/** One address where events of a tenant's runs are sent: which registrations wait for their turn, and how it fared. */
import type { StateStore } from 'svcdb'
import type { Candidate } from 'svcdb/lib/lanes'
import { MAX_PAUSE_MS } from './store.ts'

const MAX_EXPONENT = 8
/** Registrations that are sent to at one time; one at a time while it fails. */
const IN_FLIGHT = 4
/** Registrations that wait in memory. */
const WAITING = 256

export interface PushTenant {
  tenant: string
  state: StateStore
}

export interface Registration {
  run: string
  id: string
  /** Of the row in the order of the next tries. */
  key: string
}

/** Milliseconds before the try after so many failures in a row, and half of it at least. @param asked what the receiver asks for. */
export function pauseAfter(failures: number, random: number, asked = 0): number {
  const whole = 2 ** Math.min(failures, MAX_EXPONENT) * 1000
  return Math.round(Math.max(whole * (1 - random / 2), Math.min(asked, MAX_PAUSE_MS)))
}

export class Receiver implements Candidate {
  readonly of: PushTenant
  /** The tenant's. */
  readonly group: string
  slow = true
  /** In a row. */
  failures = 0
  /** Of the last failure. */
  reason = ''
  /** Milliseconds since the Unix epoch: nothing is sent before. */
  private notBefore = 0
  inFlight = 0
  /** In the order of their times. */
  readonly waiting: Registration[] = []

  constructor(of: PushTenant) {
    this.of = of
    this.group = of.tenant
  }

  get isFull(): boolean {
    return this.waiting.length >= WAITING
  }

  /** Nothing is to be sent, and nothing is known of it. */
  get isIdle(): boolean {
    return this.inFlight === 0 && this.waiting.length === 0
  }

  /** Milliseconds until it may be sent to. */
  pauseMs(now: number): number {
    const ms = this.notBefore - now
    // What lies further ahead than any pause was noted by a wrong clock.
    if (ms > MAX_PAUSE_MS) this.notBefore = 0
    return ms > MAX_PAUSE_MS ? 0 : Math.max(0, ms)
  }

  next(now: number): Registration | undefined {
    return this.pauseMs(now) > 0 || this.inFlight >= (this.failures > 0 ? 1 : IN_FLIGHT) ? undefined : this.waiting.shift()
  }

  succeeded(): void {
    this.failures = 0
  }

  /** @param began when the attempt began: of several that fail together one counts. @returns registrations that wait no longer, for their time comes later. */
  failed(began: number, now: number, reason: string, random: number, asked: number | undefined): Registration[] {
    const paused = this.pauseMs(now)
    if (began >= this.notBefore) this.failures++
    this.notBefore = now + Math.max(paused, pauseAfter(this.failures, random, asked))
    this.reason = reason
    return this.waiting.splice(0)
  }
}
