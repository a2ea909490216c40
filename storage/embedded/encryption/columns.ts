/** Decrypted blocks of the segments a thread reads, a bounded number of bytes of them. */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { RecentMap } from 'svcdb/lib/cache'
import { SvcError } from 'svcdb/lib/errors'
import type { SegmentColumn, SegmentMeta } from '../threads/segment-entry.ts'
import type { Block } from './block.ts'
import type { KeyRing } from './keys.ts'
import { type SegmentIdentity, type SidecarColumn, SidecarReader, type SidecarSource } from './sidecar.ts'

/** Where an encrypted column lies. */
export interface ColumnLocation extends SegmentIdentity, SidecarColumn {
  /** The sidecar, relative to the data directory. */
  file: string
}

/** A block, and the first of its rows. */
export interface PlacedBlock extends Block {
  first: number
}

export const DEFAULT_CACHE_BYTES = 8 << 20
/** Indexes of sidecars kept. */
const KEPT_FILES = 256

/** @param column an encrypted one. */
export function columnLocation({ id, file, sidecar, created }: SegmentMeta, { name, type, encoding }: SegmentColumn): ColumnLocation {
  if (encoding.kind !== 'encrypted') throw new Error(`column "${name}" is not encrypted`)
  if (sidecar === undefined || created === undefined)
    throw new SvcError('DATABASE_ERROR', `cannot read column "${name}" of segment "${file}": its catalog entry names no file of encrypted columns`)
  return { file: sidecar, segment: id, created, name, type, key: encoding.key }
}

export class EncryptedColumns {
  readonly keys: KeyRing
  private readonly dataDir: string
  private readonly limit: number
  private readonly files = new RecentMap<string, SidecarReader>(KEPT_FILES)
  /** Least recently used first. */
  private readonly blocks = new Map<string, PlacedBlock>()
  private held = 0

  constructor(keys: KeyRing, dataDir: string, cacheBytes: number = DEFAULT_CACHE_BYTES) {
    this.keys = keys
    this.dataDir = dataDir
    this.limit = cacheBytes
  }

  /** Bytes of decrypted values in memory. */
  get bytes(): number {
    return this.held
  }

  /** The block that holds the row. */
  blockOf(location: ColumnLocation, row: number): PlacedBlock {
    const file = this.file(location)
    const number = file.numberOf(row)
    const name = `${location.file}\n${location.name}\n${number}`
    const known = this.blocks.get(name)
    if (known !== undefined) {
      this.blocks.delete(name)
      this.blocks.set(name, known)
      return known
    }
    const block = { ...file.block(location, number, this.keys), first: file.firstOf(number) }
    this.blocks.set(name, block)
    this.held += sizeOf(block)
    // The newest stays, however large: it is about to be read.
    for (const [oldest, other] of this.blocks) {
      if (this.held <= this.limit || oldest === name) break
      this.blocks.delete(oldest)
      this.held -= sizeOf(other)
    }
    return block
  }

  /** Bytes of the texts of all columns in a file, about; 0 when none of its blocks has ended for their sake. */
  longBytes(location: ColumnLocation): number {
    return this.file(location).longBytes
  }

  private file(location: ColumnLocation): SidecarReader {
    const known = this.files.get(location.file)
    if (known !== undefined) return known
    const reader = new SidecarReader(fileSource(this.dataDir, location.file), location)
    this.files.set(location.file, reader)
    return reader
  }
}

/** Opened anew for each read: a block is read once, and a file that is deleted must not be held. */
function fileSource(dataDir: string, name: string): SidecarSource {
  const path = join(dataDir, name)
  const opened = <T>(use: (fd: number) => T): T => {
    const fd = openSync(path, 'r')
    try {
      return use(fd)
    } finally {
      closeSync(fd)
    }
  }
  return {
    name,
    size: opened((fd) => fstatSync(fd).size),
    read: (offset, length) =>
      opened((fd) => {
        const out = new Uint8Array(length)
        const read = readSync(fd, out, 0, length, offset)
        return out.subarray(0, read)
      }),
  }
}

const sizeOf = ({ values, offsets, bits }: Block): number => values.byteLength + (offsets?.byteLength ?? 0) + (bits?.byteLength ?? 0)
