/** Publishes changes to the engine threads, in order. A thread that starts late is sent the whole state first. */

import type { StateEvent } from '../messages.ts'
import { Shared } from '../shared-header.ts'

export class Publisher {
  private readonly listeners = new Set<(events: StateEvent[]) => void>()
  private pending: StateEvent[] = []
  private scheduled = false
  private readonly shared: Int32Array

  constructor(shared: Int32Array) {
    this.shared = shared
  }

  /** Events of one turn of the loop travel together. */
  publish(event: StateEvent): void {
    Atomics.add(this.shared, Shared.EVENTS, 1)
    if (this.listeners.size === 0) return
    this.pending.push(event)
    if (this.scheduled) return
    this.scheduled = true
    queueMicrotask(() => this.flush())
  }

  /** Sends what waits: call before a message that relies on it. */
  flush(): void {
    this.scheduled = false
    if (this.pending.length === 0) return
    const events = this.pending
    this.pending = []
    for (const listener of this.listeners) listener(events)
  }

  /** The listener must have been given the state as of now. */
  add(listener: (events: StateEvent[]) => void): () => void {
    this.flush()
    this.listeners.add(listener)
    return () => this.listeners.delete(listener)
  }
}
