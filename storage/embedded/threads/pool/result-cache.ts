/**
 * Results of jobs that are given again to whoever asks the same, for as long as nothing that they were computed from has changed: panels over a time that is past, lists of
 * labels and series, everything while nobody writes; docs/decisions/102-a-result-cache.md.
 *
 * Invariants
 * - Who is given a result sees all that had been acknowledged when he asked. Each change of a namespace is noted here when it takes effect and before it is acknowledged; a
 *   result counts as computed when its job was asked for, which is before its snapshot; and it is given only if no change since then touches a time that it has read.
 * - A key names the namespace, and so what one tenant keeps is never another's. Whoever has a quarter of the room drops his own results for new ones.
 * - Nothing here grows with points, series or writes: changes of a namespace without kept results are not noted, others are joined.
 */
import { earlier, INT64_MAX, INT64_MIN, later } from '../../../common/time.ts'
import type { Interval } from '../../read/sources.ts'

/** Changes of one namespace that are told apart: beyond that the two oldest are taken for one. */
const MOST_CHANGES = 32
/** Keys of one namespace that were asked for once. */
const MOST_ASKED = 512
/** A result, and a key, may take this part of the room. */
const LARGEST_RESULT = 1 / 16
const LARGEST_KEY = 1 / 256
/** About what an entry takes beside key and result, bytes. */
const ENTRY_BYTES = 400
/** Of all that is kept, this part may be one namespace's while others need room. */
const SHARE = 1 / 4

export interface CachedResult {
  /** All that the job emitted. */
  output: Uint8Array
  result: unknown
}

interface Entry extends CachedResult {
  /** Times of the rows that it follows from. */
  read: Interval
  /** Number of the first change that it may lack. */
  since: number
}

/** What is kept of a namespace, and the changes since the oldest of it was asked for. */
class NamespaceResults {
  /** Of all below, about. */
  bytes = 0
  /** Used longest ago first. */
  private readonly entries = new Map<string, Entry>()
  /** Keys that may be kept when their results come: asked for once, or their results hold no longer. */
  private readonly asked = new Set<string>()
  private readonly changes: Interval[] = []
  /** Number of the first of these. */
  private first = 0
  /** Somebody has asked since the last change: the next one is not joined to it. */
  private apart = true

  find(key: string): Entry | undefined {
    const entry = this.entries.get(key)
    if (entry === undefined) return undefined
    this.drop(key)
    if (this.touched(entry)) this.ask(key)
    else this.put(key, entry)
    return this.entries.get(key)
  }

  /** @returns whether it was asked for before. */
  ask(key: string): boolean {
    if (this.asked.has(key)) return true
    this.asked.add(key)
    this.bytes += costOf(key)
    for (const oldest of this.asked) {
      if (this.asked.size <= MOST_ASKED) break
      this.forget(oldest)
    }
    return false
  }

  /** Does nothing where the result does not hold, or its key is no longer wanted. */
  keep(key: string, entry: Entry): void {
    if (!this.asked.has(key) || this.touched(entry)) return
    this.forget(key)
    this.put(key, entry)
  }

  /** Drops the result used longest ago. @returns false where there is none. */
  dropOldest(): boolean {
    const { value } = this.entries.keys().next()
    if (value !== undefined) this.drop(value)
    return value !== undefined
  }

  /** @returns number of the next change. */
  mark(): number {
    this.apart = true
    return this.first + this.changes.length
  }

  changed(times: Interval): void {
    const { changes } = this
    if (!this.apart) {
      const last = changes.pop() as Interval
      changes.push(hull(last, times))
      return
    }
    this.apart = false
    changes.push(times)
    if (changes.length <= MOST_CHANGES) return
    // Who was asked for before the second of them is taken to lack both.
    changes[1] = hull(changes[0], changes[1])
    changes.shift()
    this.first++
  }

  /** Whether a change that it may lack touches the times that it has read. */
  private touched({ since, read: [from, to] }: Entry): boolean {
    return this.changes.slice(Math.max(0, since - this.first)).some((change) => change[0] <= to && change[1] >= from)
  }

  private put(key: string, entry: Entry): void {
    this.entries.set(key, entry)
    this.bytes += costOf(key, entry)
  }

  private drop(key: string): void {
    this.bytes -= costOf(key, this.entries.get(key))
    this.entries.delete(key)
  }

  private forget(key: string): void {
    this.bytes -= costOf(key)
    this.asked.delete(key)
  }
}

/** Collects what a job emits, to be kept if it ends well. */
export class ResultDraft {
  private readonly maxBytes: number
  private readonly keep: (cached: CachedResult, read: Interval) => void
  private parts: Uint8Array[] = []
  private bytes = 0

  constructor(maxBytes: number, keep: (cached: CachedResult, read: Interval) => void) {
    this.maxBytes = maxBytes
    this.keep = keep
  }

  /** Copied: what the caller gets is his. */
  push(bytes: Uint8Array): void {
    this.bytes += bytes.length
    if (this.bytes <= this.maxBytes) this.parts.push(bytes.slice())
    else this.parts = []
  }

  done(result: unknown, last: Uint8Array | undefined, read: Interval): void {
    if (last !== undefined) this.push(last)
    if (this.bytes > this.maxBytes) return
    // Not by Buffer.concat: a small one lies in memory that others have, and its slices are no copies.
    const output = new Uint8Array(this.bytes)
    let at = 0
    for (const part of this.parts) {
      output.set(part, at)
      at += part.length
    }
    this.keep({ output, result }, read)
  }
}

export class ResultCache {
  /** Used longest ago first. */
  private readonly namespaces = new Map<string, NamespaceResults>()
  private readonly maxBytes: number
  private used = 0

  /** @param maxBytes of all that is kept; 0 = nothing is. */
  constructor(maxBytes: number) {
    this.maxBytes = maxBytes
  }

  get bytes(): number {
    return this.used
  }

  /** Belongs to the cache: copy it. */
  find(namespace: string, key: string): CachedResult | undefined {
    return this.within(namespace, (results) => results.find(key))
  }

  /**
   * For a job that is asked for now. Only what is asked for again is kept: most questions of dashboards that follow the clock never are.
   * @returns undefined where its result is not to be kept.
   */
  draft(namespace: string, key: string): ResultDraft | undefined {
    if (key.length * 2 > this.maxBytes * LARGEST_KEY) return undefined
    if (!this.namespaces.has(namespace)) this.namespaces.set(namespace, new NamespaceResults())
    const again = this.within(namespace, (results) => results.ask(key))
    const results = this.namespaces.get(namespace)
    if (again !== true || results === undefined) return undefined
    const since = results.mark()
    return new ResultDraft(this.maxBytes * LARGEST_RESULT, (cached, read) => {
      // Else what was known of changes went meanwhile.
      if (this.namespaces.get(namespace) === results) this.within(namespace, () => results.keep(key, { ...cached, read, since }))
    })
  }

  /** Points of these times were written or deleted: call it before that is acknowledged. */
  changed(namespace: string, times: Interval): void {
    this.namespaces.get(namespace)?.changed(times)
  }

  changedEverywhere(times: Interval): void {
    for (const results of this.namespaces.values()) results.changed(times)
  }

  /** Does something in the namespace, which is the one used last from then on, and makes room for it. */
  private within<R>(namespace: string, body: (results: NamespaceResults) => R): R | undefined {
    const results = this.namespaces.get(namespace)
    if (results === undefined) return undefined
    this.namespaces.delete(namespace)
    this.namespaces.set(namespace, results)
    const before = results.bytes
    const value = body(results)
    this.used += results.bytes - before
    while (this.used > this.maxBytes) this.makeRoom(namespace, results)
    return value
  }

  private makeRoom(asking: string, results: NamespaceResults): void {
    const [name, from] = results.bytes > this.maxBytes * SHARE ? [asking, results] : (this.namespaces.entries().next().value as [string, NamespaceResults])
    const before = from.bytes
    if (from.dropOldest()) this.used -= before - from.bytes
    else {
      this.namespaces.delete(name)
      this.used -= before
    }
  }
}

export const EVER: Interval = [INT64_MIN, INT64_MAX]

const hull = (a: Interval, b: Interval): Interval => [earlier(a[0], b[0]), later(a[1], b[1])]

const costOf = (key: string, kept?: CachedResult): number => ENTRY_BYTES + key.length * 2 + (kept?.output.length ?? 0)
