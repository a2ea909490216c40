/** How a link to an upstream does, as connectors show it. */
import type { Connector } from 'svcdb'

/** As those of connectors to brokers. */
const IDLE_AFTER_MS = 10_000

export class Link {
  private readonly began: number
  private readonly now: () => number
  private state: 'stopped' | 'up' | 'reconnecting' | 'failed' = 'stopped'
  private answeredAt = Number.NEGATIVE_INFINITY
  /** Nothing was sent. */
  untried = true
  private lastError: string | undefined
  private requests = 0
  private points = 0
  private setAside = 0

  /** @param now monotonic, milliseconds. */
  constructor(now: () => number = () => performance.now()) {
    this.now = now
    this.began = now()
  }

  /** There is a connection, and nothing was sent yet. */
  reached(): void {
    this.state = 'up'
    this.untried = false
  }

  unreached(error: string): void {
    this.state = 'reconnecting'
    this.lastError = error
  }

  answered(points: number): void {
    this.state = 'up'
    this.untried = false
    this.answeredAt = this.now()
    this.requests++
    this.points += points
  }

  refused(points: number): void {
    this.setAside += points
  }

  /** @param mend somebody has to change a configuration first. */
  failed(error: string, mend: boolean): void {
    this.untried = false
    this.state = mend ? 'failed' : 'reconnecting'
    this.lastError = error
  }

  stopped(): void {
    this.state = 'stopped'
    this.untried = false
  }

  status(name: string): ReturnType<Connector['status']> {
    const { state, lastError, requests, points, setAside } = this
    const now = this.now()
    const busy = now - this.answeredAt < IDLE_AFTER_MS ? 'running' : 'idle'
    return {
      name,
      status: state === 'up' ? busy : state === 'failed' ? { failed: lastError ?? 'unknown' } : state,
      up: state === 'up',
      lastError,
      inFlight: { messages: 0, bytes: 0 },
      received: requests,
      acknowledged: requests,
      deadLettered: setAside,
      returned: 0,
      points,
      pointsRefused: setAside,
      pointsPerSecond: (points * 1000) / Math.max(1, now - this.began),
    }
  }
}
