/** The audit log of a node: what is asked to be recorded goes to the file, and from there to the other sinks. */
import { dirname } from 'node:path'
import type { AuditLog, AuditRecord, Clock, Logger, Metrics, StateStore } from 'svcdb'
import { classify, SvcError } from 'svcdb/lib/errors'
import { makeFolder, ProcessLock } from 'svcdb/lib/files'
import type { AuditConfig } from './config.ts'
import { Denials } from './denials.ts'
import { type DraftInput, draftOf } from './draft.ts'
import type { Entry, Seal } from './entry.ts'
import { AuditFile, type Files, realFiles } from './file.ts'
import { type Head, HeadKeeper } from './head.ts'
import { type AuditMetrics, auditMetrics } from './metrics.ts'
import { Recent } from './recent.ts'
import { type Note, type Resumed, resume } from './resume.ts'
import { Writer } from './writer.ts'

interface AuditLogDependencies {
  config: AuditConfig
  /** Absolute. */
  path: string
  seal: Seal
  log: Logger
  metrics: Metrics
  clock: Clock
  files?: Files
  /** Namespaces are tenants. */
  apart?: boolean
  /** Where the head is kept, from the start phase on; without it nothing is compared. */
  state?(): StateStore
}

export class FileAuditLog implements AuditLog {
  private readonly dependencies: AuditLogDependencies
  private readonly metrics: AuditMetrics
  private readonly file: AuditFile
  private readonly lock: ProcessLock
  private readonly recent: Recent
  private readonly denials: Denials
  private readonly now: () => bigint
  private opening: Promise<Writer> | undefined
  private writer: Writer | undefined
  private head: HeadKeeper | undefined
  private window: NodeJS.Timeout | undefined
  private stopped = false
  private stopping: Promise<void> | undefined
  /** Whether the last write failed: the log tells of the first of several. */
  private failing = false

  constructor(dependencies: AuditLogDependencies) {
    const { config, path, clock } = dependencies
    this.dependencies = dependencies
    this.now = () => clock.nowNanos()
    this.file = new AuditFile(path, dependencies.files ?? realFiles)
    this.lock = new ProcessLock(`${path}.lock`, {
      held: (holder) => `cannot use audit.path "${path}": ${holder} writes it; stop it, or give each server an audit log of its own`,
      unclear: `cannot lock audit.path "${path}": "${path}.lock" changes hands, or is no lock; start one server only, or remove it`,
      unlockable: (cause) =>
        `cannot lock audit.path "${path}": "${path}.lock.os" cannot be locked (${cause}); name a file on a file system that has locks, or remove the lock file while no server runs`,
    })
    this.recent = new Recent(config.memory_entries)
    const { denials_per_address: perAddress, denials_per_window: perWindow, denial_window_secs: windowSecs } = config
    this.denials = new Denials({ perAddress, perWindow, windowSecs }, this.now)
    this.metrics = auditMetrics(dependencies.metrics, { depth: () => this.writer?.depth ?? 0, size: () => this.file.size })
  }

  /** Opens the file once; whoever records before the plugin has started opens it. @throws CONFIG_ERROR, or the file system's error. */
  open(): Promise<Writer> {
    if (this.stopped) return Promise.reject(new SvcError('DATABASE_CLOSED', 'cannot keep the audit entry: the server is stopping'))
    return (this.opening ??= this.begin())
  }

  async record({ by, ...record }: AuditRecord): Promise<void> {
    const { principal, address, requestId } = by ?? {}
    await this.keep({ ...record, ...(by === undefined ? {} : { principal, requestId, ...(address === undefined ? {} : { address }) }) })
  }

  /** Like `record`; refusals may be counted in place of it, and are never refused for want of their entry. */
  async keep(record: DraftInput): Promise<void> {
    if (record.decision === 'deny') return this.keepDenial(record)
    try {
      await this.write(record)
    } catch (error) {
      if (this.dependencies.config.fail_closed || this.stopped) throw refusalFor(error)
      if (this.writer !== undefined) this.writer.lost++
    }
  }

  /** The newest lines, oldest first, and the hash of the last entry. */
  newest(count: number): { lines: string[]; lastHash: string | undefined } {
    return { lines: this.recent.newest(count), lastHash: this.writer?.lastHash }
  }

  /** Writes what waits and what was counted, and closes. Safe twice, and after a failed start. */
  stop(): Promise<void> {
    return (this.stopping ??= this.end())
  }

  private async end(): Promise<void> {
    await this.opening?.catch(() => {})
    if (this.writer !== undefined) await this.endWindow()
    this.stopped = true
    clearTimeout(this.window)
    try {
      await (this.writer ?? this.file).close()
      await this.head?.close()
    } finally {
      this.lock.release()
    }
    if (!this.denials.idle || this.writer?.lost) this.dependencies.log.error('the server stops with audit entries that could not be kept')
  }

  private async begin(): Promise<Writer> {
    const { config, seal, log } = this.dependencies
    const state = this.dependencies.state?.()
    const failed = (err: unknown) => log.error({ err }, 'the newest entry of the audit log cannot be noted in the state store; it is tried again')
    const head = state === undefined ? undefined : await HeadKeeper.open({ state, failed })
    const { end, notes, lines, begins } = await this.taken(head?.known)
    this.head = head
    if (begins && end.hash !== undefined) head?.begins({ id: end.id, hash: end.hash })
    for (const line of lines) this.recent.add(line)
    for (const note of notes) this.tell(note)
    this.writer = new Writer({
      file: this.file,
      seal,
      end,
      notes,
      now: this.now,
      syncEach: config.sync_each,
      syncIntervalMs: config.sync_interval_ms,
      maxQueue: config.max_queue,
      apart: this.dependencies.apart === true,
      kept: (entries, kept, bytes) => this.kept(entries, kept, bytes),
      changed: (note) => this.tell(note),
      durable: (entry) => head?.note(entry),
      begins: (after) => head?.begins(after),
      failed: (error) => this.tellFailure(error),
    })
    await this.writer.flushNotes()
    // That of a version that noted none, or of a crash between the file and the state store.
    if (end.hash !== undefined && notes.length === 0) head?.note({ id: end.id, hash: end.hash })
    log.info({ path: this.file.path, last_id: String(end.id), last_hash: end.hash }, 'audit log opened')
    return this.writer
  }

  /** The file, locked and read. */
  private async taken(head: Head | undefined): Promise<Resumed> {
    try {
      await makeFolder(dirname(this.file.path))
      this.lock.acquire()
      await this.file.open()
      return await resume(this.file, this.dependencies.seal, this.now, head)
    } catch (cause) {
      if (cause instanceof SvcError) throw cause
      const why = `${(cause as Error).message}; name a file that can be written, or mend its directory`
      throw new SvcError('IO_ERROR', `cannot use audit.path "${this.file.path}": ${why}`, { cause })
    }
  }

  private async write(record: DraftInput): Promise<void> {
    try {
      const writer = this.writer ?? (await this.open())
      await writer.add(draftOf(record))
    } catch (error) {
      this.metrics.failures.inc({ code: refusalFor(error).code })
      throw error
    }
  }

  private async keepDenial(record: DraftInput): Promise<void> {
    this.beginWindow()
    if (this.denials.admit(record)) await this.write(record).catch(() => this.countDenial(record))
    else this.metrics.counted.inc()
  }

  private countDenial(record: DraftInput): void {
    this.denials.count(record)
    this.metrics.counted.inc()
  }

  private beginWindow(): void {
    this.window ??= setTimeout(() => void this.endWindow(), this.dependencies.config.denial_window_secs * 1000).unref()
  }

  /** Never fails: what cannot be written is in the next window's count. */
  private async endWindow(): Promise<void> {
    clearTimeout(this.window)
    this.window = undefined
    await Promise.all(this.denials.end().map(({ record, restore }) => this.write(record).catch(restore)))
    if (!this.denials.idle && !this.stopped) this.beginWindow()
  }

  private kept(entries: readonly Entry[], lines: readonly string[], bytes: number): void {
    const { config, log } = this.dependencies
    if (this.failing) log.info('the audit log is written again')
    this.failing = false
    this.metrics.bytes.inc(bytes)
    for (const line of lines) this.recent.add(line)
    for (const { id, timestamp, principal, action, resource, decision, metadata, hash } of entries) {
      this.metrics.entries.inc({ decision })
      if (!config.log) continue
      const entry = {
        id: String(id),
        timestamp: String(timestamp),
        principal,
        action,
        resource,
        decision,
        metadata: Object.fromEntries(metadata),
        event_hash: hash,
      }
      log.info({ audit: entry }, 'audit')
    }
  }

  private tell({ event, ...note }: Note): void {
    this.metrics.changes.inc({ event })
    this.dependencies.log.error({ path: this.file.path, event, ...note }, TOLD[event] ?? event)
  }

  private tellFailure(error: unknown): void {
    if (this.failing) return
    this.failing = true
    this.dependencies.log.error({ err: error, path: this.file.path }, 'the audit log cannot be written')
  }
}

const TOLD: Record<string, string> = {
  half_line_cut: 'the audit log ended in half a line, which a crash left; it was cut off',
  damage_found: 'the audit log is damaged, or was sealed with another key; it was set aside, and the chain goes on in a new file',
  entries_missing:
    'the audit log does not have the last entry that the state store knows: it was moved away, emptied or shortened while no server ran, or the database is a restored copy; the chain goes on after that entry, or at the end of a file that begins behind it',
  file_changed: 'somebody else wrote to the audit log or cut it; the chain goes on at its end, and does not verify there',
  file_replaced: 'the audit log was moved away or deleted; the chain goes on in a new file',
}

/** What a caller is told whose entry cannot be kept. */
function refusalFor(error: unknown): SvcError {
  const known = classify(error)
  const why = 'cannot keep the audit entry of this call, which is therefore refused'
  if (known.code === 'STORAGE_FULL')
    return new SvcError('STORAGE_FULL', `${why}: no space left on the volume of the audit log; free space and retry, no restart is needed`, { cause: error })
  if (known.code === 'OVERLOADED' || known.code === 'DATABASE_CLOSED') return known
  const { code = 'it failed' } = error as NodeJS.ErrnoException
  return new SvcError('OVERLOADED', `${why}: the audit log cannot be written (${code}); the server's log has more`, { cause: error })
}
