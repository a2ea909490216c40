/** The one writer of the audit log: what waits is written and synced in one go, in the order in which it came. */
import { SvcError } from 'svcdb/lib/errors'
import { draftOf } from './draft.ts'
import { type Draft, type Entry, encodeEntry, type Seal, sealedText } from './entry.ts'
import type { AuditFile } from './file.ts'
import type { Head } from './head.ts'
import type { ChainEnd, Note } from './resume.ts'

/** Of one write; a longer queue takes several. */
const GROUP_BYTES = 1 << 20

interface Waiting {
  draft: Draft
  resolve(): void
  reject(error: unknown): void
}

interface WriterOptions {
  file: AuditFile
  seal: Seal
  end: ChainEnd
  notes: readonly Note[]
  now(): bigint
  syncEach: boolean
  syncIntervalMs: number
  maxQueue: number
  /** Namespaces are tenants: one leaves a quarter of the queue to the others. */
  apart: boolean
  /** Told of each group that is kept. */
  kept(entries: readonly Entry[], lines: readonly string[], bytes: number): void
  /** Notified of the newest entry that is on the disk. */
  durable(end: Head): void
  /** Notified of what others did to the file. */
  changed(note: Note): void
  /** The next entry is the first of a file. @param after the entry before. */
  begins(after: Head): void
  /** Told of each write and sync that failed. */
  failed(error: unknown): void
}

export class Writer {
  /** Entries that could not be kept though what they told of was done; the next entry that is kept says so. */
  lost = 0
  private readonly options: WriterOptions
  private readonly file: AuditFile
  private end: ChainEnd
  private notes: Note[]
  private readonly queue: Waiting[] = []
  /** Entries in it of each namespace. */
  private readonly queuedOf = new Map<string, number>()
  private running: Promise<void> | undefined
  private timer: NodeJS.Timeout | undefined
  private syncDue = false
  private closed = false

  constructor(options: WriterOptions) {
    this.options = options
    this.file = options.file
    this.end = options.end
    this.notes = [...options.notes]
  }

  get depth(): number {
    return this.queue.length
  }

  get lastHash(): string | undefined {
    return this.end.hash
  }

  /** Resolves when the entry is kept. @throws what hindered it: OVERLOADED, DATABASE_CLOSED, or the file system's error. */
  add(draft: Draft): Promise<void> {
    if (this.closed) return Promise.reject(new SvcError('DATABASE_CLOSED', 'cannot keep the audit entry: the server is stopping'))
    const { maxQueue } = this.options
    if (this.queue.length >= maxQueue) {
      const text = `cannot keep the audit entry: ${maxQueue} entries wait for the disk; retry later, or raise audit.max_queue`
      return Promise.reject(new SvcError('OVERLOADED', text, { headers: { 'retry-after': '1' } }))
    }
    const namespace = this.namespaceOf(draft)
    const share = Math.ceil((maxQueue * 3) / 4)
    if (namespace !== undefined && (this.queuedOf.get(namespace) ?? 0) >= share) {
      const text = `cannot keep the audit entry: ${share} entries of namespace "${namespace}" wait for the disk, three quarters of audit.max_queue = ${maxQueue}; retry later, or raise it`
      return Promise.reject(new SvcError('OVERLOADED', text, { headers: { 'retry-after': '1' } }))
    }
    return new Promise((resolve, reject) => {
      this.queue.push({ draft, resolve, reject })
      this.count(namespace, 1)
      this.go()
    })
  }

  /** Has what is noted written, where nothing else is to be. */
  async flushNotes(): Promise<void> {
    if (this.notes.length === 0) return
    this.go()
    await this.running
  }

  /** Writes what waits, syncs and closes. Safe twice. */
  async close(): Promise<void> {
    this.closed = true
    clearTimeout(this.timer)
    await this.running
    const { file } = this
    try {
      if (file.dirty) await file.sync()
      this.announce(this.options.durable)
    } finally {
      await file.close()
    }
  }

  private namespaceOf({ metadata }: Draft): string | undefined {
    return this.options.apart ? metadata.find(([key]) => key === 'namespace')?.[1] : undefined
  }

  private count(namespace: string | undefined, by: 1 | -1): void {
    if (namespace === undefined) return
    const count = (this.queuedOf.get(namespace) ?? 0) + by
    if (count > 0) this.queuedOf.set(namespace, count)
    else this.queuedOf.delete(namespace)
  }

  /** The one that came first. */
  private taken(): Waiting {
    const waiting = this.queue.shift() as Waiting
    this.count(this.namespaceOf(waiting.draft), -1)
    return waiting
  }

  private announce(to: (head: Head) => void): void {
    const { id, hash } = this.end
    if (hash !== undefined) to({ id, hash })
  }

  private go(): void {
    // Not at once: those that come in the same turn go in one group.
    this.running ??= Promise.resolve().then(async () => {
      do {
        if (this.queue.length === 0 && this.syncDue) await this.syncByClock()
        else await this.commit()
      } while (this.queue.length > 0 || this.syncDue)
      this.running = undefined
    })
  }

  /** Takes a group off the queue. A failure leaves the chain where it was, and is that of everyone in the group. */
  private async commit(): Promise<void> {
    const { file, options, queue } = this
    const notes = [...this.notes]
    const { lost } = this
    const entries: Entry[] = []
    const lines: string[] = []
    let end = this.end
    let bytes = 0
    const put = (draft: Draft) => {
      const entry = this.following(end, draft)
      const line = encodeEntry(entry)
      entries.push(entry)
      lines.push(line)
      bytes += Buffer.byteLength(line)
      end = entry
    }
    const group: Waiting[] = []
    try {
      const change = await file.lookAfter()
      if (change !== undefined) {
        const note: Note = { ...change, last_id: String(this.end.id) }
        notes.push(note)
        this.notes.push(note)
        options.changed(note)
        if (change.event === 'file_replaced') this.announce(options.begins)
      }
      for (const note of notes) put(this.draftOf(note))
      if (lost > 0) put(this.draftOf({ event: 'entries_lost', count: String(lost) }))
      while (queue.length > 0 && bytes < GROUP_BYTES) {
        const waiting = this.taken()
        group.push(waiting)
        put(waiting.draft)
      }
      await file.append(Buffer.from(lines.join('')), options.syncEach)
    } catch (error) {
      // Where not even the file is to be had, it is the failure of all who wait.
      if (group.length === 0) while (queue.length > 0) group.push(this.taken())
      options.failed(error)
      for (const { reject } of group) reject(error)
      return
    }
    this.end = end
    this.notes = this.notes.filter((note) => !notes.includes(note))
    this.lost -= lost
    if (options.syncEach) this.announce(options.durable)
    else this.syncSoon()
    for (const { resolve } of group) resolve()
    options.kept(entries, lines, bytes)
  }

  private following(end: ChainEnd, draft: Draft): Entry {
    const now = this.options.now()
    const timestamp = now > end.timestamp ? now : end.timestamp + 1n
    const unsealed = { ...draft, id: end.id + 1n, timestamp, prevHash: end.hash }
    return { ...unsealed, hash: this.options.seal(sealedText(unsealed)) }
  }

  private draftOf(metadata: Note): Draft {
    return draftOf({ action: 'custom', resource: this.file.path, decision: 'allow', metadata })
  }

  private syncSoon(): void {
    this.timer ??= setTimeout(() => {
      this.timer = undefined
      this.syncDue = true
      this.go()
    }, this.options.syncIntervalMs).unref()
  }

  private async syncByClock(): Promise<void> {
    this.syncDue = false
    try {
      if (this.file.dirty) await this.file.sync()
      this.announce(this.options.durable)
    } catch (error) {
      this.options.failed(error)
      if (!this.closed) this.syncSoon()
    }
  }
}
