/**
 * Who is alive, as this process sees it. No wall clock is compared: a node is dead when its beat has stood still, while this process looked, for the time that the
 * node itself has named. So a process that has just begun to look takes nobody for dead.
 */
import type { NodeRecord } from './records.ts'

interface Seen {
  generation: number
  beat: number
  /** When it was first read, monotonic milliseconds: it was written before. */
  at: number
}

export class Liveness {
  private readonly seen = new Map<number, Seen>()
  /** Of the newest look: when its read began. */
  private lookedAt = Number.NEGATIVE_INFINITY

  /** @param began when the read began, @param ended when it had ended, monotonic milliseconds. */
  look(nodes: readonly NodeRecord[], began: number, ended: number): void {
    this.lookedAt = began
    const present = new Set<number>()
    for (const { node_id, generation, beat } of nodes) {
      present.add(node_id)
      const before = this.seen.get(node_id)
      if (before?.generation !== generation || before.beat !== beat) this.seen.set(node_id, { generation, beat, at: ended })
    }
    for (const id of this.seen.keys()) if (!present.has(id)) this.seen.delete(id)
  }

  isAlive({ node_id, stopped, timeout_ms }: NodeRecord): boolean {
    return stopped !== true && this.silentMs(node_id) <= timeout_ms
  }

  /** For how long its beat has stood still before the eyes of this process. */
  silentMs(id: number): number {
    const seen = this.seen.get(id)
    return seen === undefined ? 0 : Math.max(0, this.lookedAt - seen.at)
  }
}
