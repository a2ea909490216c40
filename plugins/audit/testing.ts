/** For tests: audit logs in temporary folders, disks that fail, and what a file holds. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { AuditRecord, Clock, StateStore } from 'svcdb'
import { Logs, MetricsRegistry, systemClock, temporaryFolder } from 'svcdb/testkit'
import { Value } from 'typebox/value'
import { FileAuditLog } from './audit-log.ts'
import { type AuditConfig, configSchema } from './config.ts'
import { type Entry, type Seal, sealBy } from './entry.ts'
import { type Files, type OpenFile, realFiles } from './file.ts'
import { parseEntry } from './parse.ts'
import { type Verdict, verify } from './verify.ts'

export interface AuditLogOptions {
  config?: Partial<AuditConfig>
  seal?: Seal
  files?: Files
  clock?: Clock
  log?: (line: string) => void
  state?: StateStore
}

export function makeAuditLog(path: string, { config, seal = sealBy(undefined), files, clock = systemClock, log, state }: AuditLogOptions = {}): FileAuditLog {
  return new FileAuditLog({
    config: { ...(Value.Default(configSchema, {}) as AuditConfig), ...config },
    path,
    seal,
    log: new Logs({ level: 'info', format: 'json', destination: { write: log ?? (() => {}) } }).child('audit'),
    metrics: new MetricsRegistry().child('audit'),
    clock,
    ...(files === undefined ? {} : { files }),
    ...(state === undefined ? {} : { state: () => state }),
  })
}

/** All entries of a file. @throws Error for a line that is none. */
export function entriesOf(path: string): Entry[] {
  return linesOf(path).map((line) => {
    const entry = parseEntry(line)
    if (typeof entry === 'string') throw new Error(`${entry}: ${line}`)
    return entry
  })
}

export function linesOf(path: string): string[] {
  return readFileSync(path, 'utf8').split('\n').slice(0, -1)
}

export function check(path: string, seal: Seal = sealBy(undefined)): Promise<Verdict> {
  return verify([path], seal, { beginning: 'first' })
}

export const metadataOf = ({ metadata }: Entry): Record<string, string> => Object.fromEntries(metadata)

const failure = (code: string): NodeJS.ErrnoException => Object.assign(new Error(`${code}: as the test wants it`), { code })

/** The real file system, with faults. */
export class FaultyFiles implements Files {
  /** Bytes that the disk still takes; a write that does not fit is cut short, and the next one fails. */
  room = Number.POSITIVE_INFINITY
  /** Bytes that one write takes at most. */
  perWrite = Number.POSITIVE_INFINITY
  failSync: string | undefined
  failTruncate: string | undefined
  writes = 0
  syncs = 0
  /** Awaited before each write. */
  before: () => Promise<void> | void = () => {}
  /** Size of each file when it was last synced. */
  readonly synced = new Map<string, number>()
  readonly stat = realFiles.stat
  readonly rename = realFiles.rename
  readonly mkdir = realFiles.mkdir

  async open(path: string, flags: string, mode?: number): Promise<OpenFile> {
    const file = await realFiles.open(path, flags, mode)
    if (!this.synced.has(path)) this.synced.set(path, (await file.stat()).size)
    return {
      write: async (bytes, offset, length) => {
        await this.before()
        this.writes++
        const fits = Math.min(length, this.room, this.perWrite)
        if (fits === 0) throw failure('ENOSPC')
        this.room -= fits
        return file.write(bytes, offset, fits)
      },
      datasync: async () => {
        if (this.failSync !== undefined) throw failure(this.failSync)
        this.syncs++
        await file.datasync()
        this.synced.set(path, (await file.stat()).size)
      },
      truncate: async (length) => {
        if (this.failTruncate !== undefined) throw failure(this.failTruncate)
        await file.truncate(length)
        this.synced.set(path, Math.min(length, this.synced.get(path) as number))
      },
      read: (...args) => file.read(...args),
      sync: () => file.sync(),
      stat: () => file.stat(),
      close: () => file.close(),
    }
  }

  /** Holds the next writes. @returns when the first has come, and how to let all go. */
  hold(): { begun: Promise<void>; release(): void } {
    const begun = Promise.withResolvers<void>()
    const { promise, resolve } = Promise.withResolvers<void>()
    this.before = () => {
      begun.resolve()
      return promise
    }
    return { begun: begun.promise, release: resolve }
  }

  /** What a power cut would leave now: all that was synced, and something of the rest. */
  afterPowerCut(path: string, random: () => number): Buffer {
    const bytes = readFileSync(path)
    const synced = this.synced.get(path) ?? 0
    return bytes.subarray(0, synced + Math.floor(random() * (bytes.length - synced + 1)))
  }
}

/** A record as tests write it. */
export const entry = (resource: string, more: Partial<AuditRecord> = {}): AuditRecord => ({ action: 'admin', resource, decision: 'allow', ...more })
export const pathIn = (t: Parameters<typeof temporaryFolder>[0]): string => join(temporaryFolder(t), 'deep', 'audit.jsonl')

/** Kept, or the code of the refusal. */
export const outcome = (kept: Promise<void>): Promise<string> =>
  kept.then(
    () => 'kept',
    ({ code }) => code,
  )

export async function stopAtEnd(t: { teardown(run: () => unknown): void }, auditLog: FileAuditLog): Promise<FileAuditLog> {
  t.teardown(() => auditLog.stop().catch(() => {}))
  await auditLog.open()
  return auditLog
}
