/**
 * Messages that could not be stored, kept whole in a file: a line of JSON each (docs/formats/dead-letters.md). When the file is full it takes the place of
 * the one before, whose messages are gone and counted.
 */
import { type FileHandle, open, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import { SvcError } from '../errors/index.ts'
import { fileLines, makeFolder, syncFolder } from '../files/index.ts'

/** A message that could not be stored, with why. */
export interface DeadLetter {
  /** Milliseconds since the Unix epoch. */
  time: number
  topic: string
  code: string
  error: string
  body: Uint8Array
  /** Of the message, where the body is its beginning only. */
  bytes?: number
  /** Of points that have none, nanoseconds since the Unix epoch, where it is not that of the letter. */
  pointTime?: bigint | undefined
}

/** Where dead letters are kept, and how many bytes of them. */
export interface DeadLetterOptions {
  folder: string
  /** Of the source: the name of the file. */
  name: string
  /** Of the file and of the one before, each. */
  maxBytes: number
  /** Called when messages are gone, with their number. */
  dropped(messages: number): void
}

/** Those of a source or sink of a node, in the folder that all of the node share; undefined where the node has no data directory. */
export function deadLettersOf(dataDir: string | undefined, options: Omit<DeadLetterOptions, 'folder'>): DeadLetters | undefined {
  return dataDir === undefined ? undefined : new DeadLetters({ ...options, folder: join(dataDir, 'dead-letters') })
}

/** A body of a message that would not fit alone is cut, and says so. */
export class DeadLetters {
  private readonly options: DeadLetterOptions
  private file: FileHandle | undefined
  private bytes = 0
  /** Bytes of the file that are durable: what is behind them after a failure goes. */
  private durable = 0
  private lines = 0
  private linesBefore = 0
  private waiting: { line: Buffer; resolve(): void; reject(error: unknown): void }[] = []
  private writing: Promise<void> | undefined

  constructor(options: DeadLetterOptions) {
    this.options = options
  }

  get path(): string {
    return join(this.options.folder, `${this.options.name}.jsonl`)
  }

  /** Resolves when it is durable. */
  add(letter: DeadLetter): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.waiting.push({ line: lineOf(letter, this.options.maxBytes), resolve, reject })
    this.writing ??= this.write()
    return promise
  }

  /**
   * Gives all letters that there are again, the oldest first, a file at a time: it is set aside (`<name>.jsonl.replay`), and removed when `give` has settled
   * all of it. After a failure, or a crash, it is there the next time. One replay at a time. Lines that cannot be read are kept beside it
   * (`<name>.jsonl.damaged`).
   * @param give resolves when the letter is durable, or is a dead letter anew. @returns the number of those lines.
   */
  async replay(give: (letter: DeadLetter) => Promise<void>): Promise<number> {
    let damaged = 0
    for (const from of ['.replay', '.1', '']) {
      const path = await this.setAside(from)
      if (path === undefined) continue
      const given = new Set<Promise<void>>()
      let failure: unknown
      for await (const line of fileLines(path)) {
        const letter = letterOf(line)
        if (letter === undefined) {
          if (isCut(line)) continue
          await this.keepDamaged(line)
          damaged++
          continue
        }
        const one = give(letter)
          .catch((error) => {
            failure ??= error
          })
          .finally(() => given.delete(one))
        given.add(one)
        while (given.size >= MAX_GIVEN) await Promise.race(given)
        if (failure !== undefined) break
      }
      await Promise.all(given)
      if (failure !== undefined) throw failure
      await rm(path)
      await syncFolder(this.options.folder)
    }
    return damaged
  }

  /** Durable when it resolves. There is no more room for them than for letters. */
  private async keepDamaged(line: string): Promise<void> {
    const file = await open(`${this.path}.damaged`, 'a', 0o600)
    try {
      const bytes = Buffer.from(`${line}\n`)
      if ((await file.stat()).size + bytes.length > this.options.maxBytes) return this.options.dropped(1)
      await file.appendFile(bytes)
      await file.datasync()
    } finally {
      await file.close()
    }
  }

  /** Between two writes. */
  private async setAside(from: string): Promise<string | undefined> {
    while (this.writing !== undefined) await this.writing
    let path: string | undefined
    let failure: unknown
    this.writing = (async () => {
      try {
        path = await this.moved(from)
      } catch (error) {
        failure = error
      }
      this.writing = this.waiting.length > 0 ? this.write() : undefined
    })()
    await this.writing
    if (failure !== undefined) throw failure
    return path
  }

  private async moved(from: string): Promise<string | undefined> {
    const target = `${this.path}.replay`
    if ((await stat(this.path + from).catch(() => undefined)) === undefined) return undefined
    if (from === '.replay') return target
    if (from === '') {
      await this.file?.close()
      this.file = undefined
      this.bytes = this.lines = 0
    } else this.linesBefore = 0
    await rename(this.path + from, target)
    await syncFolder(this.options.folder)
    return target
  }

  async close(): Promise<void> {
    await this.writing
    await this.file?.close()
    this.file = undefined
  }

  /** All that wait, with one sync. Never rejects. */
  private async write(): Promise<void> {
    await Promise.resolve() // `writing` is set before it is unset
    while (this.waiting.length > 0) {
      const batch = this.waiting.splice(0)
      let settled = 0
      const settle = (to: number): void => {
        for (; settled < to; settled++) batch[settled].resolve()
      }
      try {
        let bytes: Buffer[] = []
        for (const [i, { line }] of batch.entries()) {
          this.file ??= await this.opened()
          if (this.bytes > 0 && this.bytes + line.length > this.options.maxBytes) {
            await this.append(bytes)
            settle(i)
            bytes = []
            await this.turnOver()
            this.file = await this.opened()
          }
          bytes.push(line)
          this.bytes += line.length
          this.lines++
        }
        await this.append(bytes)
        settle(batch.length)
      } catch (error) {
        // What a full disk has taken of them would be there twice when they are given again. What is in the file is looked at anew with the next.
        await this.file?.truncate(this.durable).catch(() => {})
        await this.file?.close().catch(() => {})
        this.file = undefined
        for (const { reject } of batch.slice(settled)) reject(error)
      }
    }
    // In the same turn as the look at what waits.
    this.writing = undefined
  }

  private async append(lines: readonly Buffer[]): Promise<void> {
    if (lines.length === 0) return
    const file = this.file as FileHandle
    await file.appendFile(Buffer.concat(lines))
    await file.datasync()
    this.durable = this.bytes
  }

  private async opened(): Promise<FileHandle> {
    const { folder } = this.options
    await makeFolder(folder)
    const file = await open(this.path, 'a+', 0o600)
    try {
      const { bytes, lines, whole } = await counted(file)
      this.bytes = bytes
      this.lines = lines
      // A line that a crash has cut is ended, so that the next begins its own.
      if (!whole) {
        await file.appendFile('\n')
        this.bytes++
      }
      this.durable = this.bytes
      await syncFolder(folder)
      return file
    } catch (error) {
      await file.close()
      throw error
    }
  }

  private async turnOver(): Promise<void> {
    await this.file?.close()
    this.file = undefined
    const before = `${this.path}.1`
    if (this.linesBefore === 0 && (await stat(before).catch(() => undefined)) !== undefined) {
      const file = await open(before)
      this.linesBefore = (await counted(file).finally(() => file.close())).lines
    }
    await rename(this.path, before)
    await syncFolder(this.options.folder)
    if (this.linesBefore > 0) this.options.dropped(this.linesBefore)
    this.linesBefore = this.lines
    this.bytes = 0
    this.lines = 0
  }
}

const NEWLINE = 10
/** Bytes that are looked at at a time. */
const COUNTED = 1 << 20
/** Letters that are given again at a time. */
const MAX_GIVEN = 256
/** Of base64 and the other members. */
const OVERHEAD = 4096

function lineOf({ time, topic, code, error, body, bytes: sent = body.length, pointTime }: DeadLetter, maxBytes: number): Buffer {
  const room = Math.max(0, Math.floor(((maxBytes - OVERHEAD) * 3) / 4))
  const cut = body.length > room
  const bytes = Buffer.from(body.buffer, body.byteOffset, cut ? room : body.length)
  const whole = {
    time: new Date(time).toISOString(),
    topic: topic.slice(0, 1024),
    code,
    error: error.slice(0, 1024),
    ...(pointTime !== undefined && { point_time: String(pointTime) }),
    ...((cut || sent > body.length) && { bytes: sent }),
    body: bytes.toString('base64'),
  }
  const text = JSON.stringify(whole).slice(0, -1)
  return Buffer.from(`${text},"checksum":"${sumOf(text)}"}\n`)
}

const END = /,"checksum":"([0-9a-f]{8})"\}$/
const sumOf = (text: string): string => crc32(text).toString(16).padStart(8, '0')

/** As a crash leaves the end of a file: whoever sent the message was not told that it is kept. */
const isCut = (line: string): boolean => line === '' || (!line.endsWith('}') && !line.includes(',"checksum":"') && !line.includes('\0'))

/** @returns also whether the last line is ended. */
async function counted(file: FileHandle): Promise<{ bytes: number; lines: number; whole: boolean }> {
  const buffer = Buffer.allocUnsafe(COUNTED)
  let [bytes, lines, whole] = [0, 0, true]
  for (;;) {
    const { bytesRead } = await file.read(buffer, 0, COUNTED, bytes)
    if (bytesRead === 0) return { bytes, lines, whole }
    const part = buffer.subarray(0, bytesRead)
    for (let at = part.indexOf(NEWLINE); at >= 0; at = part.indexOf(NEWLINE, at + 1)) lines++
    whole = part[bytesRead - 1] === NEWLINE
    bytes += bytesRead
  }
}

/** Undefined for what is none, or was one. Those of older versions have no checksum. */
function letterOf(line: string): DeadLetter | undefined {
  const end = END.exec(line)
  if (end !== null && sumOf(line.slice(0, end.index)) !== end[1]) return undefined
  try {
    const { time, topic, code, error, body, bytes, point_time } = JSON.parse(line) as Record<string, unknown>
    const at = Date.parse(String(time))
    if (typeof topic !== 'string' || typeof body !== 'string' || Number.isNaN(at)) return undefined
    const pointTime = typeof point_time === 'string' && /^\d{1,19}$/.test(point_time) ? BigInt(point_time) : undefined
    const letter = { time: at, topic, code: String(code), error: String(error), body: Buffer.from(body, 'base64') }
    return { ...letter, ...(typeof bytes === 'number' && { bytes }), ...(pointTime !== undefined && { pointTime }) }
  } catch {
    return undefined
  }
}

/** @throws PAYLOAD_TOO_LARGE for a letter that has the beginning of its message only: what could be read of it would be other points. */
export function requireWhole({ body, bytes = body.length }: Pick<DeadLetter, 'body' | 'bytes'>): void {
  if (bytes > body.length)
    throw new SvcError(
      'PAYLOAD_TOO_LARGE',
      `cannot read a message of ${bytes} bytes again: its dead letter has the first ${body.length} only; send it anew, in parts`,
    )
}
