/**
 * Results of jobs that are given again to whoever asks the same, for as long as nothing that they were computed from has changed: panels over a time that is past, lists of
 * labels and series, everything while nobody writes; docs/decisions/102-a-result-cache.md. And what jobs go on from whose answers overlap with those of earlier ones, such as panels
 * that follow the clock; docs/decisions/103-partial-results.md.
 *
 * Invariants
 * - Who is given a result sees all that had been acknowledged when he asked. Each change of a namespace is noted here when it takes effect and before it is acknowledged; a
 *   result counts as computed when its job was asked for, which is before its snapshot; and it is given only if no change since then touches a time that it has read.
 *   A partial result is given with the changes since then, as of the moment its job is handed to its thread: whoever asks after a later one does not join that job.
 * - A key names the namespace, and so what one tenant keeps is never another's. Whoever has more than a quarter of the room makes way, for his own new results and for others'.
 * - Nothing here grows with points, series or writes: changes of a namespace without kept results are not noted, others are joined. All that a namespace takes here counts.
 */
import { FifoMap } from 'svcdb/lib/cache'
import { earlier, INT64_MAX, INT64_MIN, later } from '../../../common/time.ts'
import type { Interval } from '../../read/sources.ts'

/** Changes of one namespace that are told apart: beyond that the two oldest are taken for one. */
const MOST_CHANGES = 32
/** Keys of one namespace that were asked for once: all panels of all dashboards that are open, twice, fit in between two refreshes. */
const MOST_ASKED = 4096
/** A result, and a key, may take this part of the room. */
const LARGEST_RESULT = 1 / 16
const LARGEST_KEY = 1 / 256
/** About what an entry takes beside key and result, a key that was asked for once, a change, and a namespace with the first of its changes, bytes. */
const ENTRY_BYTES = 400
const ASKED_BYTES = 64
const CHANGE_BYTES = 128
const NAMESPACE_BYTES = 1024
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

interface Change {
  /** What it touches: all times, where it brings labels, columns or tables, which have none. */
  times: Interval
  /** Of its rows. */
  rows: Interval
}

/** What is kept of a namespace, and the changes since the oldest of it was asked for. */
class NamespaceResults {
  /** Of all below, about. */
  bytes = NAMESPACE_BYTES
  /** It has made way for others: changes are no longer noted here. */
  gone = false
  /** In the order of their use. */
  private readonly entries = new FifoMap<string, Entry>()
  /** Keys that may be kept when their results come, by their hashes: asked for once, or their results hold no longer. Where two have one hash, a result is kept that was asked for once. */
  private readonly asked = new FifoMap<number, true>()
  private readonly changes: Change[] = []
  /** Number of the first of these. */
  private first = 0
  /** Somebody has asked since the last change: the next one is not joined to it. */
  private apart = true

  find(key: string): Entry | undefined {
    const entry = used(this.entries, key)
    if (entry === undefined || !this.touched(entry)) return entry
    this.drop(key)
    this.ask(key)
    return undefined
  }

  /** @returns whether it was asked for before. */
  ask(key: string): boolean {
    const hash = hashOf(key)
    if (this.asked.has(hash)) return true
    this.asked.set(hash, true)
    this.bytes += ASKED_BYTES
    if (this.asked.size > MOST_ASKED) this.forget(this.asked.oldest() as number)
    return false
  }

  /** Does nothing where the result does not hold, or its key is no longer wanted. */
  keep(key: string, entry: Entry): void {
    const hash = hashOf(key)
    if (!this.asked.has(hash) || this.touched(entry)) return
    this.forget(hash)
    if (this.entries.has(key)) this.drop(key)
    this.entries.set(key, entry)
    this.bytes += costOf(key, entry)
  }

  /** Of jobs with this key. @returns undefined where it was not asked for before. */
  partial(key: string): { kept: Entry | undefined; changed: Interval[]; since: number } | undefined {
    const kept = used(this.entries, key)
    if (kept === undefined && !this.ask(key)) return undefined
    return { kept, changed: kept === undefined ? [] : this.lacked(kept).map(({ rows }) => rows), since: this.mark() }
  }

  /** In the place of what was kept under the key. */
  keepPartial(key: string, entry: Entry): void {
    const hash = hashOf(key)
    if (this.entries.has(key)) this.drop(key)
    else if (this.asked.has(hash)) this.forget(hash)
    else return
    this.entries.set(key, entry)
    this.bytes += costOf(key, entry)
  }

  /** Drops the result used longest ago. @returns false where there is none. */
  dropOldest(): boolean {
    const oldest = this.entries.oldest()
    if (oldest !== undefined) this.drop(oldest)
    return oldest !== undefined
  }

  /** @returns number of the next change. */
  mark(): number {
    if (!this.apart && this.changes.length < MOST_CHANGES) this.bytes += CHANGE_BYTES
    this.apart = true
    return this.first + this.changes.length
  }

  /** Whether something has changed since that mark, or may have. */
  changedSince(mark: number): boolean {
    return this.gone || this.first + this.changes.length > mark
  }

  changed(change: Change): void {
    const { changes } = this
    if (!this.apart) {
      const last = changes.pop() as Change
      changes.push(both(last, change))
      return
    }
    this.apart = false
    changes.push(change)
    if (changes.length <= MOST_CHANGES) return
    // Who was asked for before the second of them is taken to lack both.
    changes[1] = both(changes[0], changes[1])
    changes.shift()
    this.first++
  }

  /** Whether a change that it may lack touches the times that it has read. */
  private touched(entry: Entry): boolean {
    const [from, to] = entry.read
    return this.lacked(entry).some(({ times }) => times[0] <= to && times[1] >= from)
  }

  /** Changes that it may lack. */
  private lacked({ since }: Entry): Change[] {
    return this.changes.slice(Math.max(0, since - this.first))
  }

  private drop(key: string): void {
    this.bytes -= costOf(key, this.entries.get(key))
    this.entries.delete(key)
  }

  private forget(hash: number): void {
    this.bytes -= ASKED_BYTES
    this.asked.delete(hash)
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
    // A buffer's own slice is no copy, and a new small buffer lies in memory that others have.
    if (this.bytes <= this.maxBytes) this.parts.push(new Uint8Array(bytes))
    else this.parts = []
  }

  done(result: unknown, last: Uint8Array | undefined, read: Interval): void {
    if (last !== undefined) this.push(last)
    if (this.bytes <= this.maxBytes) this.keep({ output: this.output(), result }, read)
  }

  private output(): Uint8Array {
    if (this.parts.length === 1) return this.parts[0]
    const output = new Uint8Array(this.bytes)
    let at = 0
    for (const part of this.parts) {
      output.set(part, at)
      at += part.length
    }
    return output
  }
}

/** What a job goes on from, and where what it keeps for others goes. */
export class PartialDraft {
  /** What an earlier one has kept, in shared memory; undefined = nothing. */
  readonly bytes: Uint8Array | undefined
  readonly changed: readonly Interval[]
  readonly maxBytes: number
  /** Times of the rows that `bytes` follow from. */
  private readonly before: Interval | undefined
  private readonly results: NamespaceResults
  private readonly since: number
  private readonly store: (entry: Entry) => void

  constructor(
    results: NamespaceResults,
    { kept, changed, since }: NonNullable<ReturnType<NamespaceResults['partial']>>,
    maxBytes: number,
    store: (entry: Entry) => void,
  ) {
    this.bytes = kept?.output
    this.changed = changed
    this.maxBytes = maxBytes
    this.before = kept?.read
    this.results = results
    this.since = since
    this.store = store
  }

  /** The job has no answer for those who ask after that. */
  get overtaken(): boolean {
    return this.bytes !== undefined && this.results.changedSince(this.since)
  }

  /** All that the job's answer follows from. @param read what it has read itself. */
  readBy(read: Interval): Interval {
    return this.before === undefined ? read : hull(this.before, read)
  }

  keep(bytes: Uint8Array, read: Interval): void {
    if (bytes.length <= this.maxBytes) this.store({ output: bytes, result: undefined, read: this.readBy(read), since: this.since })
  }
}

export class ResultCache {
  /** In the order of their use. */
  private readonly namespaces = new FifoMap<string, NamespaceResults>()
  /** Those that have more than their share. */
  private readonly large = new Map<string, NamespaceResults>()
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
    if (!this.namespaces.has(namespace)) this.begin(namespace)
    const since = this.within(namespace, (results) => (results.ask(key) ? results.mark() : undefined))
    const results = this.namespaces.get(namespace)
    if (since === undefined || results === undefined) return undefined
    return new ResultDraft(this.maxBytes * LARGEST_RESULT, (cached, read) => {
      // Else what was known of changes went meanwhile.
      if (this.namespaces.get(namespace) === results) this.within(namespace, () => results.keep(key, { ...cached, read, since }))
    })
  }

  /** For a job that is handed to its thread now. @returns undefined where nobody has asked for its key before. */
  partial(namespace: string, key: string): PartialDraft | undefined {
    if (key.length * 2 > this.maxBytes * LARGEST_KEY) return undefined
    if (!this.namespaces.has(namespace)) this.begin(namespace)
    const found = this.within(namespace, (results) => results.partial(key))
    const results = this.namespaces.get(namespace)
    if (found === undefined || results === undefined) return undefined
    return new PartialDraft(results, found, Math.floor(this.maxBytes * LARGEST_RESULT), (entry) => {
      if (this.namespaces.get(namespace) === results) this.within(namespace, () => results.keepPartial(key, entry))
    })
  }

  /** Rows of these times were written or deleted: call it before that is acknowledged. @param touched more than their times, where labels, columns or tables came or went with them. */
  changed(namespace: string, rows: Interval, touched = rows): void {
    this.namespaces.get(namespace)?.changed({ times: touched, rows })
  }

  changedEverywhere(times: Interval): void {
    for (const results of this.namespaces.values()) results.changed({ times, rows: times })
  }

  private begin(namespace: string): void {
    const results = new NamespaceResults()
    this.namespaces.set(namespace, results)
    this.used += results.bytes
  }

  /** Does something in the namespace, which is the one used last from then on, and makes room for it. */
  private within<R>(namespace: string, body: (results: NamespaceResults) => R): R | undefined {
    const results = used(this.namespaces, namespace)
    if (results === undefined) return undefined
    const value = this.counted(namespace, results, () => body(results))
    while (this.used > this.maxBytes) this.makeRoom(namespace)
    return value
  }

  private counted<R>(namespace: string, results: NamespaceResults, body: () => R): R {
    const before = results.bytes
    const value = body()
    this.used += results.bytes - before
    if (results.bytes > this.maxBytes * SHARE) this.large.set(namespace, results)
    else this.large.delete(namespace)
    return value
  }

  /** Of the one who asks if he has more than his share, else of another who has, else of the one used longest ago. */
  private makeRoom(asking: string): void {
    const [[large] = []] = this.large
    const name = this.large.has(asking) ? asking : (large ?? (this.namespaces.oldest() as string))
    const from = this.namespaces.get(name) as NamespaceResults
    if (this.counted(name, from, () => from.dropOldest())) return
    from.gone = true
    this.namespaces.delete(name)
    this.large.delete(name)
    this.used -= from.bytes
  }
}

export const EVER: Interval = [INT64_MIN, INT64_MAX]

const hull = (a: Interval, b: Interval): Interval => [earlier(a[0], b[0]), later(a[1], b[1])]

const both = (a: Change, b: Change): Change => ({ times: hull(a.times, b.times), rows: hull(a.rows, b.rows) })

const costOf = (key: string, kept?: CachedResult): number => ENTRY_BYTES + key.length * 2 + (kept?.output.length ?? 0)

/** FNV-1a of its code units. Anybody can make two keys meet, who gains nothing by it. */
function hashOf(key: string): number {
  let hash = 0x811c9dc5 | 0
  for (let i = 0; i < key.length; i++) hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193)
  return hash
}

/** It is the one used last from now on. */
function used<V>(map: FifoMap<string, V>, key: string): V | undefined {
  const value = map.get(key)
  if (value === undefined) return undefined
  map.delete(key)
  map.set(key, value)
  return value
}
