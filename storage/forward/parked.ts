/**
 * Namespaces of which an upstream takes nothing for now, each with a place of its own in the queue, so that the others go on. Pure: the caller has the clock and
 * the queue.
 *
 * Whose turn it is: of those that are due, every other time the one with the lowest place, so that many that flow again read the queue once between them, not once
 * each; else the one whose last turn is the longest ago, so that none waits for all that another has to catch up with.
 */
import type { QueuePosition } from './sender-positions.ts'

/** Names of those it has taken points of that are remembered. */
const MOST_KNOWN = 10_000
const FIRST_PAUSE_MS = 500
/** Between two tries of all parked namespaces together, at least, on average; chance takes a quarter of it. */
const SPACING_MS = 250
/** Tries that failed, from which on only one point is sent. */
const PROBE_AFTER = 3

export interface ParkedNamespace {
  readonly namespace: string
  /** All of it that is before is settled. */
  place: QueuePosition
  /** Rows of the record there that are settled; 0 where that is not known. */
  rows: number
  /** In a row that failed; 0 = it flows again, and catches up. */
  tries: number
  /** When it may be tried, milliseconds that never go back. */
  dueMs: number
  /** Number of its last turn. */
  turn: number
  /** What the upstream said last. */
  error: string | undefined
  /** Somebody has to change a configuration. */
  mend: boolean
}

interface ParkedRefusal {
  error: string
  mend: boolean
  retryAfterMs: number
}

export class Parked {
  private readonly members = new Map<string, ParkedNamespace>()
  /** The most recent last. */
  private readonly known = new Set<string>()
  private readonly maxPauseMs: number
  private readonly maxUnknown: number
  private readonly random: () => number
  private turns = 0

  /**
   * @param maxPauseMs longest pause of one, where there are few. @param maxUnknown how many may be parked of which the upstream has not taken a point since the
   * start: who invents names must not take memory for each, nor the upstream's time. @param random 0 to 1.
   */
  constructor(maxPauseMs: number, maxUnknown: number, random: () => number = Math.random) {
    this.maxPauseMs = maxPauseMs
    this.maxUnknown = maxUnknown
    this.random = random
  }

  get size(): number {
    return this.members.size
  }

  has(namespace: string): boolean {
    return this.members.has(namespace)
  }

  get(namespace: string): ParkedNamespace | undefined {
    return this.members.get(namespace)
  }

  all(): Iterable<ParkedNamespace> {
    return this.members.values()
  }

  /** The upstream has taken points of a namespace. */
  taken(namespace: string): void {
    this.known.delete(namespace)
    this.known.add(namespace)
    if (this.known.size <= MOST_KNOWN) return
    const [oldest] = this.known
    this.known.delete(oldest)
  }

  /** Whether a namespace may be parked. */
  hasRoom(namespace: string): boolean {
    return this.members.size < this.maxUnknown || this.known.has(namespace)
  }

  /** @param place of the first record that is not settled. */
  park(namespace: string, place: QueuePosition): ParkedNamespace {
    const member: ParkedNamespace = { namespace, place, rows: 0, tries: 0, dueMs: 0, turn: 0, error: undefined, mend: false }
    this.members.set(namespace, member)
    return member
  }

  refused(member: ParkedNamespace, { error, mend, retryAfterMs }: ParkedRefusal, nowMs: number): void {
    const doubled = FIRST_PAUSE_MS * 2 ** Math.min(member.tries++, 30)
    const pause = Math.min(this.maxPauseMs, Math.max(doubled, retryAfterMs))
    // Half of it is chance, as with each wait for an upstream.
    member.dueMs = nowMs + Math.max(pause, this.members.size * SPACING_MS) * (0.5 + this.random() / 2)
    member.error = error
    member.mend = mend
  }

  flows(member: ParkedNamespace): void {
    // What was mended for one was likely mended for all, and those that begin together read the queue together.
    if (member.tries > 0 && member.mend) for (const other of this.members.values()) other.dueMs = Math.min(other.dueMs, member.dueMs)
    member.tries = 0
    member.error = undefined
  }

  /** Milliseconds until one is due; infinite without one. */
  dueIn(nowMs: number): number {
    let due = Number.POSITIVE_INFINITY
    for (const { dueMs } of this.members.values()) due = Math.min(due, dueMs)
    return due - nowMs
  }

  /** Whose turn it is; undefined when none is due. */
  next(nowMs: number): ParkedNamespace | undefined {
    const lowest = this.turns++ % 2 === 0
    let chosen: ParkedNamespace | undefined
    for (const member of this.members.values()) {
      if (member.dueMs > nowMs) continue
      const before = chosen === undefined || (lowest ? member.place.sequence < chosen.place.sequence : member.turn < chosen.turn)
      if (before) chosen = member
    }
    if (chosen !== undefined) chosen.turn = this.turns
    return chosen
  }

  /** Those that have come up to a place are parked no more. */
  join(upTo: QueuePosition): void {
    for (const { namespace, place } of this.members.values()) if (place.sequence >= upTo.sequence) this.members.delete(namespace)
  }

  /** The lowest place. */
  get from(): QueuePosition | undefined {
    let lowest: QueuePosition | undefined
    for (const { place } of this.members.values()) if (lowest === undefined || place.sequence < lowest.sequence) lowest = place
    return lowest
  }
}

/** What has been refused for long is tried with one point, for it costs the link and the upstream least. */
export const isProbed = ({ tries, mend }: ParkedNamespace): boolean => tries > 0 && (mend || tries >= PROBE_AFTER)
