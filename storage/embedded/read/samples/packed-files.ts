/**
 * Packed blocks in scratch files: what large questions read again and again need not be in this process' memory, and is read back many times faster than
 * it is decoded. A file for each segment, which goes with it. They have no names, are no part of the database, and end with the thread.
 */
import { closeSync, mkdirSync, openSync, readSync, statfsSync, unlinkSync, writevSync } from 'node:fs'
import { join } from 'node:path'
import type { OwnedBlocks } from './block-cache.ts'
import { PackedBlock } from './packed-block.ts'
import type { Scratch } from './scratch.ts'

/** Open at once: more than segments that a large question reads, mostly. */
const MAX_FILES = 256
/** Of what would be free without the files they take this share at most: the rest is for what is written. */
const FREE_SHARE = 1 / 2
/** A file that no question has used since so many calls of `rest` goes. */
const KEPT_ROUNDS = 60

interface Place {
  offset: number
  /** Bytes. */
  length: number
}

interface PackedFile {
  fd: number
  end: number
  readonly places: Map<number, Place>
  /** The question that used it last. */
  question: number
  /** Of `PackedFiles.rest` when it was used last. */
  round: number
}

export interface PackedFilesOptions {
  directory: string
  /** Bytes of all files, at most. */
  budget: number
  /** Told apart from those of other threads. */
  name: string
  /** Bytes that are free on the volume of the directory. @throws what the system says */
  free?: (directory: string) => number
}

export class PackedFiles {
  /** In order of use. */
  private readonly files = new Map<OwnedBlocks<PackedBlock>, PackedFile>()
  private readonly options: PackedFilesOptions
  private held = 0
  private next = 0
  private round = 0
  /** Bytes of all files for now; undefined = to be measured. */
  private room: number | undefined

  constructor(options: PackedFilesOptions) {
    this.options = options
  }

  /** Of all files. */
  get bytes(): number {
    return this.held
  }

  has(owned: OwnedBlocks<PackedBlock>, key: number): boolean {
    return this.files.get(owned)?.places.has(key) === true
  }

  /** @param scratch for its arrays: they are void once it is released. */
  get(owned: OwnedBlocks<PackedBlock>, key: number, question: number, scratch: Scratch | undefined): PackedBlock | undefined {
    const file = this.files.get(owned)
    const place = file?.places.get(key)
    if (file === undefined || place === undefined) return undefined
    this.use(owned, file, question)
    const { buffer } = scratch?.ints(place.length >> 2) ?? new Int32Array(place.length >> 2)
    try {
      const bytes = new Uint8Array(buffer, 0, place.length)
      for (let at = 0; at < place.length; ) {
        const read = readSync(file.fd, bytes, at, place.length - at, place.offset + at)
        if (read === 0) throw new Error('the file ends early')
        at += read
      }
    } catch {
      // What cannot be read is decoded again.
      this.drop(owned)
      return undefined
    }
    return PackedBlock.of(buffer as ArrayBuffer)
  }

  /** Whether a block of this size would be taken. What the same question uses does not go for it. */
  admits(bytes: number, question: number): boolean {
    let missing = this.held + bytes - this.limit
    if (missing <= 0) return true
    for (const file of this.files.values()) {
      if (file.question === question) continue
      missing -= file.end
      if (missing <= 0) return true
    }
    return false
  }

  /** @returns false when it was not taken. */
  put(owned: OwnedBlocks<PackedBlock>, key: number, block: PackedBlock, question: number): boolean {
    const views = block.image()
    const length = views.reduce((sum, { byteLength }) => sum + byteLength, 0)
    if (!this.admits(length, question)) return false
    const most = this.files.has(owned) ? MAX_FILES : MAX_FILES - 1
    for (const [other, { question: last }] of this.files) {
      if (this.held + length <= this.limit && this.files.size <= most) break
      if (last !== question && other !== owned) this.drop(other)
    }
    if (this.held + length > this.limit || this.files.size > most) return false
    try {
      const file = this.files.get(owned) ?? this.open(question)
      this.use(owned, file, question)
      const offset = file.end
      if (writevSync(file.fd, views, offset) !== length) throw new Error('the disk is full')
      file.places.set(key, { offset, length })
      file.end += length
      this.held += length
      return true
    } catch {
      this.close()
      this.room = 0
      return false
    }
  }

  /** Call every ten seconds: looks how much room there is now, and drops what is beyond it or was not used for ten minutes. */
  rest(): void {
    const least = ++this.round - KEPT_ROUNDS
    this.room = undefined
    for (const [owned, file] of this.files) if (file.round < least || this.held > this.limit) this.drop(owned)
  }

  /** Drops the files of segments that are gone. */
  forget(gone: ReadonlySet<number>): void {
    for (const owned of [...this.files.keys()]) if (gone.has(owned.owner)) this.drop(owned)
  }

  close(): void {
    for (const owned of [...this.files.keys()]) this.drop(owned)
  }

  private get limit(): number {
    this.room ??= this.measured()
    return this.room
  }

  /** Nothing where there can be no files. */
  private measured(): number {
    const { directory, budget, free = freeBytes } = this.options
    try {
      mkdirSync(directory, { recursive: true })
      return Math.min(budget, Math.floor((free(directory) + this.held) * FREE_SHARE))
    } catch {
      return 0
    }
  }

  private open(question: number): PackedFile {
    const { directory, name } = this.options
    const path = join(directory, `samples-${name}-${this.next++}`)
    const fd = openSync(path, 'w+', 0o600)
    // Without a name it is gone with whoever has it open, however that ends.
    unlinkSync(path)
    return { fd, end: 0, places: new Map(), question, round: this.round }
  }

  private use(owned: OwnedBlocks<PackedBlock>, file: PackedFile, question: number): void {
    file.question = question
    file.round = this.round
    this.files.delete(owned)
    this.files.set(owned, file)
  }

  private drop(owned: OwnedBlocks<PackedBlock>): void {
    const file = this.files.get(owned)
    if (file === undefined) return
    this.files.delete(owned)
    this.held -= file.end
    closeSync(file.fd)
  }
}

function freeBytes(directory: string): number {
  const { bavail, bsize } = statfsSync(directory)
  return bavail * bsize
}
