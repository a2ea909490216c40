/**
 * Acknowledgements of one connection: each is sent when its message is settled, and in the order in which the messages came, as MQTT wants it. Those of a
 * connection that is gone are never sent: the broker sends the messages again, under other identifiers.
 */
export class PendingAcks<P> {
  private readonly send: (packets: P[]) => void
  private queue: { packet: P; settled: boolean }[] = []
  private scheduled = false
  /** The connection is gone. */
  closed = false

  /** @param send is called with those that are due, some microtasks after the first of them. */
  constructor(send: (packets: P[]) => void) {
    this.send = send
  }

  get waiting(): number {
    return this.queue.length
  }

  /** @returns called when the message is settled. */
  add(packet: P): () => void {
    if (this.closed) return () => {}
    const entry = { packet, settled: false }
    this.queue.push(entry)
    return () => {
      entry.settled = true
      if (this.scheduled || this.closed || this.queue[0] !== entry) return
      this.scheduled = true
      setImmediate(() => this.flush())
    }
  }

  close(): void {
    this.closed = true
    this.queue = []
  }

  /** Sends what is due now. */
  flush(): void {
    this.scheduled = false
    if (this.closed) return
    const end = this.queue.findIndex(({ settled }) => !settled)
    const due = this.queue.splice(0, end < 0 ? this.queue.length : end)
    if (due.length > 0) this.send(due.map(({ packet }) => packet))
  }
}
