/**
 * The queue on disk: records in numbered files, appended by the log (storage/common/log), read back by each sender from its own position, removed file by file when
 * every sender is behind them. Layout: docs/formats/forward-queue.md.
 *
 * Invariants
 * - What `append` has resolved is read by every sender, unless the bounds drop it, which is counted, or the disk gives back other bytes, which are set aside and counted.
 * - Senders see records that are durable only (periodic: written), in the order of the appends.
 * - Only the newest file is appended to; a start begins a new one. So a torn tail can be at the end of a file of any former start, and is cut at the next.
 * - Points before a record are counted in it: what waits, and what is lost between two records, is a difference.
 */
import { join } from 'node:path'
import type { WriteBatch } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import { ByteReader } from '../common/log/bytes.ts'
import type { FileSystem } from '../common/log/file-system.ts'
import { frameFault } from '../common/log/frames.ts'
import { FRAME_HEADER, type FsyncPolicy, Wal } from '../common/log/log.ts'
import type { Timers } from '../common/timers.ts'
import { Ages } from './ages.ts'
import { queueFileName, queueFileNumber } from './paths.ts'
import { bytesOf, firstHead, isUnreadable, keepDamaged, nextFrame, QUEUE_FORM, type QueueFile, recordBytes, settle } from './queue-file.ts'
import type { Choose, DropReason, QueueBounds, QueueEvents, ReadRecord, ReadRecords } from './queue-types.ts'
import { decodeHead, decodeRecord, encodeRecord, type QueueRecord, type RecordHead } from './record.ts'
import { Removal } from './removal.ts'
import { between, type QueuePosition, type RecordCount, SenderPositions } from './sender-positions.ts'

const MAGIC = QUEUE_FORM.magic.length
const NONE: RecordCount = { records: 0, points: 0 }

interface QueueOptions {
  dir: string
  damagedDir: string
  policy: FsyncPolicy
  bounds: QueueBounds
  fs: FileSystem
  timers: Timers
  now(): number
  monotonic(): number
  events: QueueEvents
}

/** A reader whose file is dropped goes on with the next. */
export class Queue {
  private readonly options: QueueOptions
  private readonly log: Wal
  private readonly removal: Removal
  readonly ages: Ages
  /** In order; the last one is written to. */
  private files: QueueFile[] = []
  /** Bytes of the last file that senders may read. */
  private readable = MAGIC
  /** Of the next record. */
  private sequence = 0
  private points = 0
  /** Behind the newest record that senders may read. */
  private end: QueuePosition = { file: 0, offset: MAGIC, sequence: 0, points: 0 }
  private readonly waiting = new Set<() => void>()
  readonly positions = new SenderPositions()
  /** What is gone before it has been counted. */
  private lostUpTo = { sequence: 0, points: 0 }
  private rotating = false
  private closed = false
  /** Bytes of records that are not in the files yet. */
  private underWay = 0

  constructor(options: QueueOptions) {
    this.options = options
    const { dir, policy, fs, timers, events } = options
    this.removal = new Removal(options)
    this.ages = new Ages(options.bounds.maxAgeMs, options)
    this.log = new Wal(dir, QUEUE_FORM, policy, fs, { fsyncs: () => events.fsyncs(), written: (bytes) => events.written(bytes) }, timers)
  }

  /**
   * Reads what a former start has left, without reading the records. What the disk does not give back is left to the senders, who try for longer.
   * @param floor what has been counted before, at least: no two records have one number, and what is missing at the end is known. @throws what the disk says.
   */
  async open(floor: Pick<QueuePosition, 'sequence' | 'points'> = { sequence: 0, points: 0 }): Promise<void> {
    const { dir, fs } = this.options
    const numbers = fs
      .readdirSync(dir)
      .flatMap((name) => queueFileNumber(name) ?? [])
      .sort((a, b) => a - b)
    for (const file of numbers) {
      const known = await this.found(file)
      if (known !== undefined) this.files.push(known)
    }
    let unread = 0
    for (const file of this.files.toReversed()) {
      const settled = await settle(fs, dir, file, file.file === numbers.at(-1), (error, text) => this.options.events.warning(error, text))
      unread += settled.unread
      if (settled.end === undefined) continue
      ;[this.sequence, this.points] = [settled.end.sequence, settled.end.points]
      break
    }
    // Should the disk give them back later, no two records have one number.
    this.sequence += unread
    this.sequence = Math.max(this.sequence, floor.sequence)
    this.points = Math.max(this.points, floor.points)
    this.files = this.files.filter(({ file, bytes }) => bytes > MAGIC || !this.removal.remove(file))
    this.end = { file: (numbers.at(-1) ?? 0) + 1, offset: MAGIC, sequence: this.sequence, points: this.points }
    this.log.begin(this.end.file)
    this.files.push({ file: this.end.file, bytes: MAGIC, first: undefined, newest: undefined })
    this.ages.begin(this.sequence)
  }

  async close(): Promise<void> {
    this.closed = true
    this.wake()
    await this.removal.done()
    await this.log.close()
  }

  get bytes(): number {
    return this.files.reduce((sum, { bytes }) => sum + bytes, 0)
  }

  /** What was counted so far. */
  get counted(): RecordCount {
    return { records: this.end.sequence, points: this.end.points }
  }

  /** Why writes are refused for good, if they are. */
  get fault(): SvcError | undefined {
    return this.log.poisoned
  }

  /** When the oldest record that waits was taken, about: of its file. */
  get oldestMs(): number | undefined {
    return this.files.find(({ first }) => first !== undefined)?.first?.takenMs
  }

  /** What waits for a sender, with what it has passed over. */
  waitingFor(name: string): RecordCount {
    return this.positions.waiting(name, this.end)
  }

  /** What is behind a position. */
  behind(position: QueuePosition): RecordCount {
    return between(position, this.end)
  }

  /** What waits for the slowest sender. */
  get waitingAtMost(): RecordCount {
    return this.positions.waitingAtMost(this.end)
  }

  /** Makes room, or says that there is none, and drops nothing then. @throws STORAGE_FULL, PAYLOAD_TOO_LARGE for what an empty queue would not take. */
  admit(bytes: number): void {
    const { maxBytes, whenFull } = this.options.bounds
    const wanted = this.underWay + bytes
    if (this.bytes + wanted <= maxBytes) return
    if (MAGIC + bytes > maxBytes)
      throw new SvcError('PAYLOAD_TOO_LARGE', `cannot take points: about ${bytes} bytes, [database] forward.max_size is ${maxBytes}; send smaller batches`)
    if (whenFull === 'drop_oldest') {
      if ((this.files.at(-1) as QueueFile).bytes + wanted <= maxBytes) {
        while (this.bytes + wanted > maxBytes) this.dropFirst('size')
        return
      }
      this.rotate() // the file that is written to cannot go: with the next try it can
    }
    throw new SvcError(
      'STORAGE_FULL',
      `cannot take points: those that wait for the upstream take ${this.bytes + this.underWay} bytes, [database] forward.max_size is ${maxBytes}; writes resume when the upstream has taken some`,
    )
  }

  /**
   * Appends a batch; resolves when it is durable. The batch may be used again as soon as this returns.
   * @param undo called when it is not, before anybody hears of it, newest first. @throws as the log.
   */
  append(batch: WriteBatch, head: Omit<RecordHead, 'sequence' | 'before'>, keyOf: (series: number) => Uint8Array, undo = () => {}): Promise<void> {
    return new Promise((resolve, reject) => {
      const { sequence, points } = this
      const whole: RecordHead = { ...head, sequence, before: points }
      let bytes = 0
      const encode = (out: Parameters<Parameters<Wal['append']>[0]>[0]): void => {
        const start = out.length
        encodeRecord(out, whole, batch, keyOf)
        bytes = FRAME_HEADER + out.length - start
        this.underWay += bytes
      }
      const applied = (): void => {
        this.underWay -= bytes
        this.taken(whole, bytes)
        resolve()
      }
      const failed = (error: Error): void => {
        this.underWay -= bytes
        // Newest first, and all behind the first that fails do.
        if (whole.sequence < this.sequence) {
          this.sequence = whole.sequence
          this.points = whole.before
        }
        undo()
        reject(error)
      }
      this.sequence++
      this.points += head.points
      this.ages.taken(whole)
      try {
        this.log.append(encode, applied, failed)
      } catch (error) {
        this.underWay -= bytes
        this.sequence = sequence
        this.points = points
        undo()
        reject(error)
      }
    })
  }

  /**
   * Registers a sender, at a position that it had or at the oldest record.
   * @param exact it was nowhere further on when it was stopped: what is missing behind the position is lost, and was not sent.
   */
  attach(name: string, saved: QueuePosition | undefined, exact = false): QueuePosition {
    const oldest = this.start()
    const known = saved !== undefined && saved.sequence <= this.end.sequence && (exact || saved.sequence >= oldest.sequence)
    const at = known && (exact || this.has(saved.file)) ? saved : known ? this.startBehind(saved) : oldest
    this.positions.attach(name, at)
    return at
  }

  /** The position itself, or the first behind it where its file is gone; what is missing between the two is counted. */
  present(position: QueuePosition): QueuePosition {
    if (this.has(position.file)) return position
    const next = this.startBehind(position)
    this.lost(position, { sequence: next.sequence, before: next.points })
    return next
  }

  /** Counts what a sender had passed over in files that are gone. */
  forgetPassed(name: string): void {
    for (const [file, { records, points }] of this.positions.passed(name)) {
      if (this.has(file)) continue
      this.options.events.dropped('damaged', records, points)
      this.positions.pass(name, file, { records: -records, points: -points })
    }
  }

  /** All before `position` is of no use to the sender any more. */
  advance(name: string, position: QueuePosition): void {
    this.positions.advance(name, position)
    this.removeDone()
  }

  /** Resolves when there may be something behind the position, or the signal or the queue ends. */
  async wait(position: QueuePosition, signal: AbortSignal): Promise<void> {
    while (!this.closed && !signal.aborted && this.end.sequence <= position.sequence) {
      const { promise, resolve } = Promise.withResolvers<void>()
      const aborted = (): void => resolve()
      this.waiting.add(resolve)
      signal.addEventListener('abort', aborted)
      await promise
      signal.removeEventListener('abort', aborted)
      this.waiting.delete(resolve)
    }
  }

  /**
   * Records behind a position, of one file, up to about so many bytes; at least one where there is one, wanted or not. What cannot be read is passed over and
   * counted.
   * @param choose what to do with each record, in order; default all are decoded.
   */
  async read(from: QueuePosition, maxBytes: number, choose?: Choose): Promise<ReadRecords> {
    let at = from
    if (!this.has(at.file)) at = this.startBehind(at)
    for (;;) {
      const index = this.files.findIndex(({ file }) => file === at.file)
      if (index < 0) return { records: [], next: at, passed: NONE }
      const last = index === this.files.length - 1
      const end = last ? this.readable : this.files[index].bytes
      if (at.offset < end) {
        const found = await this.readFrom(at, end, maxBytes, choose)
        // Dropped meanwhile: it was counted.
        if (found.records.length + found.passed.records > 0 || !this.has(at.file)) return found
        at = found.next
      }
      if (last) return { records: [], next: this.atEnd(at), passed: NONE }
      if (at.offset < end) continue
      const next = this.files[index + 1]
      const begin = this.beginOf(next)
      if (begin !== undefined) this.lost(at, begin)
      at = this.positionOf(next, at)
    }
  }

  /**
   * Passes over what the disk does not give back: one record, where its length can be read, else what is left of its file. What is lost is counted as the
   * next record is read. @returns the position to go on from.
   */
  async passUnread(from: QueuePosition, cause: string): Promise<QueuePosition> {
    const index = this.files.findIndex(({ file }) => file === from.file)
    if (index < 0) return this.startBehind(from)
    const end = index === this.files.length - 1 ? this.readable : this.files[index].bytes
    const { fs, dir, events } = this.options
    const header = await bytesOf(fs, join(dir, queueFileName(from.file)), from.offset, from.offset + FRAME_HEADER).catch(() => undefined)
    const length = header?.length === FRAME_HEADER ? FRAME_HEADER + new DataView(header.buffer, header.byteOffset).getUint32(0, true) : end - from.offset
    const offset = Math.min(end, from.offset + length)
    events.damaged(queueFileName(from.file), from.offset, offset - from.offset, cause)
    return { ...from, offset }
  }

  /** Drops files whose records are all too old. Call now and then. */
  expire(): void {
    if (this.options.bounds.maxAgeMs <= 0) return
    this.ages.forget(this.start().sequence)
    while (this.files.length > 1) {
      const [{ first, newest }, { first: following }] = this.files
      // Clocks that were set between two starts: the later record may have the earlier time.
      if ((newest ?? following) === undefined || ![first, newest, following].every((head) => head === undefined || this.ages.isTooOld(head))) break
      this.dropFirst('age')
    }
    const newest = this.files.at(-1)?.first
    // So that the newest file can go as a whole, too, when nothing more is written.
    if (newest !== undefined && this.ages.isTooOld(newest)) this.rotate()
  }

  // ---

  private has(number: number): boolean {
    return this.files.some(({ file }) => file === number)
  }

  /** A file of a former start; undefined for one of which the disk does not even say how long it is. */
  private async found(file: number): Promise<QueueFile | undefined> {
    const { dir, fs, events } = this.options
    const path = join(dir, queueFileName(file))
    try {
      const bytes = fs.sizeSync(path) ?? 0
      return { file, bytes, first: await firstHead(fs, path, bytes), newest: undefined }
    } catch (error) {
      if (!isUnreadable(error)) throw error
      events.damaged(queueFileName(file), 0, 0, `the disk does not say how long it is: ${(error as Error).message}`)
      return undefined
    }
  }

  private taken(head: RecordHead, bytes: number): void {
    let file = this.files.at(-1) as QueueFile
    if (this.log.file !== file.file) {
      file = { file: this.log.file, bytes: MAGIC, first: undefined, newest: undefined }
      this.files.push(file)
      this.readable = MAGIC
    }
    file.first ??= head
    file.newest = head
    file.bytes += bytes
    this.readable += bytes
    this.end = { file: file.file, offset: this.readable, sequence: head.sequence + 1, points: head.before + head.points }
    if (this.readable >= this.options.bounds.fileBytes) this.rotate()
    this.wake()
  }

  private wake(): void {
    for (const resolve of this.waiting) resolve()
  }

  private rotate(): void {
    if (this.rotating || this.closed) return
    this.rotating = true
    this.log.barrier(() => {
      this.rotating = false
      const newest = this.files.at(-1) as QueueFile
      if (this.closed || this.log.file !== newest.file || this.readable <= MAGIC) return
      try {
        this.log.openFile(newest.file + 1)
      } catch (error) {
        // The one before goes on being written.
        return this.options.events.warning(error, 'cannot begin a new file of the queue')
      }
      this.files.push({ file: this.log.file, bytes: MAGIC, first: undefined, newest: undefined })
      this.readable = MAGIC
      this.removeDone()
    })
  }

  /** Where nothing is left to be read, what could not be is lost: there is no record behind it that says so. */
  private atEnd(at: QueuePosition): QueuePosition {
    const { file, sequence, points } = this.end
    if (at.sequence >= sequence || at.offset < this.readable || at.file !== this.files.at(-1)?.file || at.file < file) return at
    this.lost(at, { sequence, before: points })
    return { ...at, sequence, points }
  }

  /** The oldest position. */
  private start(): QueuePosition {
    return this.startBehind({ file: -1, offset: MAGIC, sequence: 0, points: 0 })
  }

  /** The first position in a file behind one that is gone. */
  private startBehind(gone: QueuePosition): QueuePosition {
    const next = this.files.find(({ file }) => file > gone.file)
    return next === undefined ? { ...this.end } : this.positionOf(next, gone)
  }

  private positionOf(file: QueueFile, before: QueuePosition): QueuePosition {
    const begin = this.beginOf(file)
    return { file: file.file, offset: MAGIC, sequence: begin?.sequence ?? before.sequence, points: begin?.before ?? before.points }
  }

  /** What a file begins with, or will; undefined where that cannot be read. */
  private beginOf(file: QueueFile): Pick<RecordHead, 'sequence' | 'before'> | undefined {
    return file.first ?? (file === this.files.at(-1) ? { sequence: this.end.sequence, before: this.end.points } : undefined)
  }

  private dropFirst(reason: DropReason): void {
    const [gone, next, ...others] = this.files
    // The next one may have no record yet.
    const end = [next, ...others].find((file) => file.first !== undefined)?.first ?? { sequence: this.end.sequence, before: this.end.points }
    const behind = { file: next.file, offset: MAGIC, sequence: end.sequence, points: end.before }
    const first = { ...behind, sequence: gone.first?.sequence ?? end.sequence, points: gone.first?.before ?? end.before }
    // What a sender still had before it is lost to it.
    const { records, points } = this.positions.lostWith(gone.file, first, behind)
    this.files.shift()
    this.removal.add(gone.file)
    if (records > 0) this.options.events.dropped(reason, records, points)
    if (behind.sequence > this.lostUpTo.sequence) this.lostUpTo = behind
    this.positions.moveBehind(gone.file, behind)
  }

  private removeDone(): void {
    const needed = Math.min(...[...this.positions.all()].map((at) => this.neededFrom(at)))
    while (needed < Number.POSITIVE_INFINITY && this.files.length > 1 && this.files[0].file < needed) this.removal.add((this.files.shift() as QueueFile).file)
  }

  /** The first file with something for a sender. */
  private neededFrom(at: QueuePosition): number {
    const index = this.files.findIndex(({ file }) => file === at.file)
    return index >= 0 && index < this.files.length - 1 && at.offset >= this.files[index].bytes ? this.files[index + 1].file : at.file
  }

  private async readFrom(from: QueuePosition, end: number, maxBytes: number, choose?: Choose): Promise<ReadRecords> {
    const { fs, dir } = this.options
    const { bytes, cut } = await recordBytes(fs, join(dir, queueFileName(from.file)), from.offset, end, maxBytes)
    // What is written from now on goes to a file that is there.
    if (cut && from.file === this.files.at(-1)?.file) this.rotate()
    if (bytes.length === 0) return { records: [], next: this.has(from.file) ? this.missing(from, end) : from, passed: NONE }
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    const behind = cut ? end : from.offset + bytes.length
    const complete = behind >= end
    const records: ReadRecord[] = []
    let passed = NONE
    let next = from
    let at = 0
    while (at < bytes.length) {
      const fault = frameFault(bytes, view, at)
      if (fault !== undefined) {
        if (at > 0) break // looked at again, as the first
        if (!complete) return this.readFrom(from, end, Number.MAX_SAFE_INTEGER, choose)
        return { records, next: await this.passOver(bytes, view, fault.cause, next, behind), passed }
      }
      const length = FRAME_HEADER + view.getUint32(at, true)
      let record: QueueRecord | undefined
      let head: RecordHead
      try {
        head = decodeHead(new ByteReader(bytes, at + FRAME_HEADER, at + length))
        const choice = choose?.(head) ?? 'take'
        if (choice === 'end' && at > 0) break
        if (choice !== 'pass') record = decodeRecord(bytes, at + FRAME_HEADER, at + length)
      } catch (error) {
        if (at > 0) break
        return { records, next: await this.passOver(bytes, view, `the record cannot be decoded: ${(error as Error).message}`, next, behind), passed }
      }
      this.lost(next, head)
      next = { file: from.file, offset: next.offset + length, sequence: head.sequence + 1, points: head.before + head.points }
      if (record === undefined) passed = { records: passed.records + 1, points: passed.points + head.points }
      else records.push({ record, checksum: view.getUint32(at + 4, true), bytes: length, next, passed })
      at += length
    }
    return { records, next, passed }
  }

  /** Records between two that could not be read. */
  private lost(from: QueuePosition, { sequence, before }: Pick<RecordHead, 'sequence' | 'before'>): void {
    const begin = from.sequence < this.lostUpTo.sequence ? this.lostUpTo : from
    if (sequence <= begin.sequence) return
    this.lostUpTo = { sequence, points: before }
    const { records, points } = between(begin, this.lostUpTo)
    // A start counts as many numbers as there may be records in what it could not read; without a point between them none is known to be lost.
    if (points > 0) this.options.events.dropped('damaged', records, points)
  }

  /** Sets bytes aside up to the next frame that is whole, or the end. @param behind them. @returns the position of that frame. */
  private async passOver(bytes: Uint8Array, view: DataView, cause: string, from: QueuePosition, behind: number): Promise<QueuePosition> {
    const to = nextFrame(bytes, view, 1)
    await keepDamaged(this.options, from.file, from.offset, bytes.subarray(0, to), cause)
    // Nothing behind it in this file: what follows tells what is lost.
    return { ...from, offset: to < bytes.length ? from.offset + to : behind }
  }

  /** Passes over what a file that is gone, or was cut, has no more. */
  private missing(from: QueuePosition, end: number): QueuePosition {
    this.options.events.damaged(queueFileName(from.file), from.offset, end - from.offset, 'the file is gone or was cut')
    return { ...from, offset: end }
  }
}
