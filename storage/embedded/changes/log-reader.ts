/**
 * Reads records back for cursors that are behind what is in memory: a window of a file at a time, asynchronously; a record is decoded when it is asked for.
 *
 * A file that goes while it is read can be read to its end; the next one that is not there is a gap, and so is what cannot be read.
 */
import { join } from 'node:path'
import type { SvcError } from 'svcdb/lib/errors'
import { crc32c } from 'svcdb/lib/files'
import type { Place } from '../../common/change-places.ts'
import { WHOLE } from '../../common/change-places.ts'
import { ByteReader } from '../../common/log/bytes.ts'
import type { FileSystem, OpenFile } from '../../common/log/file-system.ts'
import { BOUNDS, FRAME_HEADER } from '../../common/log/log.ts'
import type { KeyRing } from '../encryption/keys.ts'
import { walFileName } from '../paths.ts'
import { type ChangeRecord, decodeChange, RECORD_CHANGE } from '../wal/change-record.ts'
import { FILE_MAGIC } from '../wal/form.ts'
import { decodeWrite, type TableRows } from '../wal/record.ts'
import type { Entry } from './change-log.ts'
import type { KeptLogs } from './kept-logs.ts'
import type { ChangeNames } from './names.ts'
import { gathered } from './rows.ts'

const WINDOW = 1 << 20
/** The least of a payload that has its kind and sequence. */
const HEAD = 16

export interface LogReaderOptions {
  dir: string
  fs: Pick<FileSystem, 'promises'>
  logs: KeptLogs
  names: ChangeNames
  keys: KeyRing | undefined
  /** Resolves in a later turn of the loop. */
  turn(): Promise<void>
  /** A file is being closed. */
  closing?(closed: Promise<void>): void
}

/** Where a record lies in the window. */
interface Frame {
  start: number
  end: number
  sequence: number
  kind: number
}

/** Something that is no whole frame. */
const BROKEN = 'broken'

/** Whole records that cannot be read: the key of a column is gone, or is another one now. */
interface Unreadable {
  /** Of the last of them; those behind it can be read. */
  unreadable: number
}

/** The frames of one file, in order. */
class LogFile {
  bytes: Uint8Array = new Uint8Array(0)
  private at = FILE_MAGIC.length
  private windowStart = 0
  private readonly file: OpenFile

  constructor(file: OpenFile) {
    this.file = file
  }

  /** The next frame, left where it is until `pass`; undefined where the file ends. @param whole its payload is wanted, and checked. */
  async frame(whole: boolean): Promise<Frame | undefined | typeof BROKEN> {
    const found = await this.load(FRAME_HEADER + HEAD)
    if (found === 0) return undefined
    if (found < FRAME_HEADER + 2) return BROKEN
    let start = this.at - this.windowStart
    const view = new DataView(this.bytes.buffer, this.bytes.byteOffset, this.bytes.byteLength)
    if (crc32c(this.bytes, start, start + 12) !== view.getUint32(start + 12, true)) return BROKEN
    const length = view.getUint32(start, true)
    const checksum = view.getUint32(start + 4, true)
    if (length > BOUNDS.record) return BROKEN
    if (whole) {
      if ((await this.load(FRAME_HEADER + length)) < FRAME_HEADER + length) return BROKEN
      start = this.at - this.windowStart
      if (crc32c(this.bytes, start + FRAME_HEADER, start + FRAME_HEADER + length) !== checksum) return BROKEN
    }
    const reader = new ByteReader(this.bytes, start + FRAME_HEADER)
    const kind = reader.u8()
    return { start: start + FRAME_HEADER, end: start + FRAME_HEADER + length, sequence: reader.varint(), kind }
  }

  pass({ start, end }: Frame): void {
    this.at += FRAME_HEADER + end - start
  }

  close(): Promise<void> {
    return this.file.close().catch(() => {})
  }

  /** Has `wanted` bytes, from where it is on, in the window if the file has them. @returns how many there are. */
  private async load(wanted: number): Promise<number> {
    const has = this.windowStart + this.bytes.length - this.at
    if (has >= wanted) return has
    const window = new Uint8Array(Math.max(WINDOW, wanted))
    let length = 0
    while (length < window.length) {
      const { bytesRead } = await this.file.read(window, length, window.length - length, this.at + length)
      if (bytesRead === 0) break
      length += bytesRead
    }
    this.bytes = window.subarray(0, length)
    this.windowStart = this.at
    return length
  }
}

export class LogReader {
  private readonly options: LogReaderOptions
  private file: LogFile | undefined
  private number = 0
  /** Of the last record passed. */
  private sequence = -1

  constructor(options: LogReaderOptions) {
    this.options = options
  }

  /**
   * The next record that tells of something, behind a place and up to a sequence.
   * @returns 'end' when there is none, 'lost' when what follows cannot be read, and neither can what is behind it in the file.
   */
  async next({ sequence, part }: Place, until: number): Promise<Entry | Unreadable | 'end' | 'lost'> {
    const after = part === WHOLE ? sequence : sequence - 1
    let found: Unreadable | undefined
    try {
      if (this.file === undefined || this.sequence > after) {
        if (!(await this.seek(after))) return 'lost'
      }
      while (this.file !== undefined) {
        const frame = await this.file.frame(false)
        if (frame === undefined || frame === BROKEN) {
          // All up to `until` has been written: where the file ends the next one begins.
          if (this.sequence >= until) return found ?? 'end'
          if (frame === BROKEN || !(await this.open(this.number + 1))) return found ?? 'lost'
          continue
        }
        if (frame.sequence > until) return found ?? 'end'
        if (frame.sequence <= after) this.pass(frame)
        else {
          const whole = await this.file.frame(true)
          if (whole === undefined || whole === BROKEN) return found ?? 'lost'
          const entry = this.readableEntry(whole, this.file.bytes)
          if (entry === 'unreadable') found = { unreadable: whole.sequence }
          else if (entry !== undefined && found !== undefined) return found
          this.pass(whole)
          if (entry !== undefined && entry !== 'unreadable') return entry
          await this.options.turn()
        }
      }
      return 'lost'
    } catch (error) {
      this.close()
      throw error
    }
  }

  close(): void {
    this.closeFile()
    this.sequence = -1
  }

  private closeFile(): void {
    const closed = this.file?.close()
    this.file = undefined
    if (closed !== undefined) this.options.closing?.(closed)
  }

  /** The file that it has come to. */
  get at(): number {
    return this.number
  }

  private pass(frame: Frame): void {
    this.sequence = frame.sequence
    this.file?.pass(frame)
  }

  /** Opens the file that has what follows a sequence. @returns false when it is not there any more. */
  private async seek(after: number): Promise<boolean> {
    this.close()
    const { logs } = this.options
    const [first, ...others] = logs.files()
    if (first === undefined) return false
    let found = first
    let start = await startOf(first, this.options)
    for (const file of others) {
      // The first ones may have no records: then they say nothing of where they begin, and the next one does.
      const next = await startOf(file, this.options)
      if (next === undefined) continue
      if (next > after) {
        start ??= next
        break
      }
      found = file
      start = next
    }
    if (start !== undefined && start > after) return false
    return this.open(found)
  }

  private async open(number: number): Promise<boolean> {
    const { dir, fs } = this.options
    const handle = await openLog(dir, number, fs)
    if (handle === undefined) return false
    this.closeFile()
    this.file = new LogFile(handle)
    this.number = number
    return true
  }

  private readableEntry(frame: Frame, bytes: Uint8Array): Entry | 'unreadable' | undefined {
    try {
      return this.entryOf(frame, bytes)
    } catch (error) {
      if (error instanceof RangeError || (error as Partial<SvcError>).code === 'ENCRYPTION_KEY_UNAVAILABLE') return 'unreadable'
      throw error
    }
  }

  private entryOf({ start, end, kind, sequence }: Frame, bytes: Uint8Array): Entry | undefined {
    const { names, keys } = this.options
    if (kind === RECORD_CHANGE) {
      const reader = new ByteReader(bytes, start, end)
      reader.u8()
      reader.varint()
      return entryOfChange(sequence, decodeChange(reader))
    }
    const { tables, heap, backfill } = decodeWrite(bytes, start, end, keys)
    const rows = tables.reduce((sum, table) => sum + table.rows, 0)
    if (rows === 0) return undefined
    const known = tables.map((table) => withNames(table, names))
    return { sequence, tables: known, heap, backfill: backfill === true, rows, bytes: 0, users: 0, left: true, release() {} }
  }
}

function entryOfChange(sequence: number, change: ChangeRecord): Entry | undefined {
  if (change.kind !== 'delete' && change.kind !== 'drop' && change.kind !== 'restore') return undefined
  const { owner, measurement } = change
  if (owner === undefined) return undefined // the end of a drop that was told when it was made
  return { sequence, tables: undefined, owner: { id: measurement, namespace: owner[0], name: owner[1] }, change, rows: 1, bytes: 0 }
}

/** A table of the log with its fields' names, without rows of series that nobody knows any more. */
function withNames(table: TableRows, names: ChangeNames): TableRows {
  const known = names.table(table.table)
  if (known === undefined) return { ...table, rows: 0 }
  const fields = table.fields.map(({ id }) => (known.fields[id]?.id === id ? known.fields[id] : known.fields.find((field) => field.id === id)))
  if (fields.includes(undefined)) return { ...table, rows: 0 }
  const named = { ...table, fields: fields as TableRows['fields'] }
  let n = 0
  for (let row = 0; row < table.rows; row++) if (names.ownerOf(table.series[row]) >= 0) n++
  if (n === table.rows) return named
  const rows = new Int32Array(n)
  for (let row = 0, i = 0; row < table.rows; row++) if (names.ownerOf(table.series[row]) >= 0) rows[i++] = row
  return gathered(named, rows)
}

/** @returns undefined for a file that is not there any more: files go when they are not needed, whoever is about to read them. */
async function openLog(dir: string, number: number, fs: LogReaderOptions['fs']): Promise<OpenFile | undefined> {
  try {
    return await fs.promises.open(join(dir, walFileName(number)), 'r')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

/** Behind which sequence the records of a file are; undefined for one without any, or that is not there any more. */
export async function startOf(number: number, { logs, dir, fs }: Pick<LogReaderOptions, 'logs' | 'dir' | 'fs'>): Promise<number | undefined> {
  const known = logs.startOf(number)
  if (known !== undefined) return known
  const handle = await openLog(dir, number, fs)
  if (handle === undefined) return undefined
  const file = new LogFile(handle)
  try {
    const frame = await file.frame(false)
    if (frame === undefined || frame === BROKEN) return undefined
    logs.learn(number, frame.sequence - 1)
    return frame.sequence - 1
  } finally {
    await file.close()
  }
}

/** Learns the names of series that were given back in files below `end`, which no start has read back. */
export async function learnNames(end: number, options: Omit<LogReaderOptions, 'keys'>): Promise<void> {
  const { dir, fs, logs, names, turn } = options
  for (const number of logs.files()) {
    if (number >= end) return
    const handle = await fs.promises.open(join(dir, walFileName(number)), 'r').catch(() => undefined)
    if (handle === undefined) continue // gone meanwhile
    const file = new LogFile(handle)
    try {
      for (let frame = await file.frame(false); frame !== undefined && frame !== BROKEN; frame = await file.frame(false)) {
        if (frame.kind === RECORD_CHANGE) {
          const whole = await file.frame(true)
          if (whole === undefined || whole === BROKEN) break
          const reader = new ByteReader(file.bytes, whole.start, whole.end)
          reader.u8()
          reader.varint()
          learnFrom(decodeChange(reader), names)
          await turn()
        }
        file.pass(frame)
      }
    } finally {
      await file.close()
    }
  }
}

export function learnFrom(change: ChangeRecord, names: ChangeNames): void {
  if (change.kind !== 'release' || change.names === undefined) return
  for (const [i, [measurement, tags]] of change.names.entries()) names.learn(change.series[i], measurement, tags)
}
