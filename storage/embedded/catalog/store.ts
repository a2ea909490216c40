/**
 * The catalog's key-value store: LMDB under checksums. Layout: docs/formats/catalog.md.
 *
 * Invariants
 * - Every value but `meta/format` is encoded by value.ts; every read checks it.
 * - `meta/sum` holds the number of all other entries and the XOR of their checksums, and moves in the transaction that moves them: an entry that
 *   is missing, too many or of another time is noticed when the catalog is opened.
 * - `transaction` collects what its body writes and applies it when the body has returned: a throw leaves nothing behind.
 */
import { SvcError } from 'svcdb/lib/errors'
import { type Environment, realEnvironment } from '../environment.ts'
import type { Slices } from '../slices.ts'
import { CatalogCommits, type RawWrites } from './commit.ts'
import { unescapedKey } from './key.ts'
import type { KeyValueStore } from './key-value-store.ts'
import { StateCommits } from './state-commits.ts'
import { corruptCatalog, decodeJson, decodeValue, encodeJson, encodeValue, storedCrc, valueCrc, withoutCrc } from './value.ts'

/** Rises with any change of the on-disk formats that older code cannot read. */
export const FORMAT_VERSION = 4

const FORMAT = 'meta/format'
const SUM = 'meta/sum'
const BINARY = /^(symbols|series)\//

interface Sum {
  entries: number
  crc: number
}

/** What a transaction's body writes. */
export interface CatalogWrites {
  put(key: string, bytes: Uint8Array): void
  putJson(key: string, value: unknown): void
  remove(key: string): void
}

export interface Entry {
  key: string
  bytes: Uint8Array
}

export class CatalogStore {
  readonly db: KeyValueStore
  readonly commits: CatalogCommits
  /** Of the plugins' state. */
  readonly states: StateCommits

  private constructor(db: KeyValueStore, dir: string, fs: Environment['fs']) {
    this.db = db
    this.commits = new CatalogCommits(db, dir, undefined, fs)
    this.states = new StateCommits(this)
  }

  /**
   * Opens or makes the store, brings an older version up to this one, and checks every entry.
   * @param mayCreate whether there is nothing yet that a catalog would have to know of. @param slices of entries, where others are served meanwhile: nobody writes to it.
   */
  static async open(
    dir: string,
    mayCreate: boolean,
    { fs, openStore }: Pick<Environment, 'fs' | 'openStore'> = realEnvironment,
    slices?: Slices,
  ): Promise<CatalogStore> {
    fs.mkdirSync(dir)
    const db = await openStore(dir, slices)
    try {
      const version = readFormat(db)
      if (version === undefined && !isEmpty(db)) throw corruptCatalog(`entry "${FORMAT}" is missing`)
      if (version === undefined && !mayCreate) throw corruptCatalog('it is empty or missing, though there are segments or logs')
      const store = new CatalogStore(db, dir, fs)
      if (version === undefined) await store.initialise()
      else if (version === 1) await store.addChecksums()
      else if (version > FORMAT_VERSION || version < 1) throw otherVersion(version)
      await store.escapeKeys(slices)
      await store.verify(slices)
      if (version === 2 || version === 3) await store.raiseVersion()
      return store
    } catch (error) {
      await db.close()
      throw error instanceof SvcError ? error : corruptCatalog('LMDB cannot read it', error)
    }
  }

  get(key: string): Uint8Array | undefined {
    const stored = this.db.get(key) as Uint8Array | undefined
    return stored === undefined ? undefined : decodeValue(key, stored)
  }

  /** As `get`, until the next entry is read, of one whose checksum was compared when the store was opened: of all series together that takes its time. */
  checked(key: string): Uint8Array | undefined {
    const stored = this.look(key)
    return stored === undefined ? undefined : withoutCrc(stored)
  }

  getJson<T>(key: string): T | undefined {
    const stored = this.db.get(key) as Uint8Array | undefined
    return stored === undefined ? undefined : decodeJson<T>(key, stored)
  }

  /** Bytes of the pages in use. */
  get mappedBytes(): number {
    const { pageSize, lastPageNumber } = this.db.getStats() as { pageSize: number; lastPageNumber: number }
    return pageSize * (lastPageNumber + 1)
  }

  /** Entries from `start` on and before `end`, in the order of keys. */
  *range(range: { start: string; end: string; limit?: number }): Generator<Entry> {
    for (const { key, value } of this.db.getRange(range)) yield { key, bytes: decodeValue(key, value as Uint8Array) }
  }

  *keys(prefix: string): Generator<string> {
    for (const key of this.db.getKeys({ start: prefix, end: `${prefix}\uffff` })) yield key
  }

  /** Durable when it resolves. @param stored, ready as in `CatalogCommits.run`. @throws as that. */
  async transaction<T>(body: (writes: CatalogWrites) => T, stored?: () => void, ready?: () => Promise<void>): Promise<T> {
    const write = (raw: RawWrites): T => {
      const writes = new Map<string, Uint8Array | undefined>()
      const result = body({
        put: (key, bytes) => void writes.set(key, encodeValue(key, bytes)),
        putJson: (key, value) => void writes.set(key, encodeJson(key, value)),
        remove: (key) => void writes.set(key, undefined),
      })
      this.apply(raw, writes)
      return result
    }
    return this.commits.run(write, stored, ready)
  }

  async close(): Promise<void> {
    await this.db.close()
  }

  /** Call within a transaction. */
  private apply(raw: RawWrites, writes: ReadonlyMap<string, Uint8Array | undefined>): void {
    if (writes.size === 0) return
    const stored = this.db.get(SUM) as Uint8Array | undefined
    if (stored === undefined) throw corruptCatalog(`entry "${SUM}" is missing`)
    let { entries, crc } = decodeJson<Sum>(SUM, stored)
    for (const [key, value] of writes) {
      const before = this.db.get(key) as Uint8Array | undefined
      if (before !== undefined) {
        entries--
        crc ^= storedCrc(before)
        if (value === undefined) raw.remove(key)
      }
      if (value === undefined) continue
      entries++
      crc ^= storedCrc(value)
      raw.put(key, value)
    }
    raw.put(SUM, encodeJson(SUM, { entries, crc: crc >>> 0 }))
  }

  private async initialise(): Promise<void> {
    await this.commits.run((raw) => {
      raw.put(SUM, encodeJson(SUM, { entries: 0, crc: 0 }))
      raw.put(FORMAT, formatMark(FORMAT_VERSION))
    })
  }

  /** Keys of state that were stored before they were escaped at every length are moved, all or none, to where they are looked for. No others have such characters. */
  private async escapeKeys(slices?: Slices): Promise<void> {
    const moved: { key: string; from: Uint8Array; value: Uint8Array }[] = []
    let seen = 0
    for (const { key, value } of this.db.getRange({ start: 'state/', end: 'state0' })) {
      if (slices !== undefined && ++seen % slices.size === 0) await slices.next()
      const from = unescapedKey(key)
      if (from !== undefined && this.db.get(key) === undefined) moved.push({ key, from, value: Uint8Array.from(value as Uint8Array) })
    }
    if (moved.length === 0) return
    await this.commits.run((raw) => {
      for (const { key, from, value } of moved) {
        raw.remove(from)
        raw.put(key, value)
      }
    })
  }

  /** What versions 3 and 4 added is in what they have written themselves. */
  private async raiseVersion(): Promise<void> {
    await this.commits.run((raw) => raw.put(FORMAT, formatMark(FORMAT_VERSION)))
  }

  /** Version 1 had neither checksums nor `meta/sum`. One transaction: a crash leaves the one version or the other. */
  private async addChecksums(): Promise<void> {
    const keys = [...this.db.getKeys({})]
    if (keys.includes(SUM)) throw corruptCatalog(`entry "${FORMAT}" says version 1, and "${SUM}" is of a later one`)
    await this.commits.run((raw) => {
      const values = new Map<string, Uint8Array>()
      for (const key of keys) if (key !== FORMAT) values.set(key, encodeValue(key, parsed(key, this.db.get(key) as Uint8Array)))
      const sum: Sum = { entries: values.size, crc: [...values.values()].reduce((crc, value) => (crc ^ storedCrc(value)) >>> 0, 0) }
      for (const [key, value] of values) raw.put(key, value)
      raw.put(SUM, encodeJson(SUM, sum))
      raw.put(FORMAT, formatMark(FORMAT_VERSION))
    })
  }

  /** What is stored under a key, until the next entry is read. */
  private look(key: string): Uint8Array | undefined {
    const stored = this.db.getBinaryFast(key)
    return stored === undefined ? undefined : new Uint8Array(stored.buffer, stored.byteOffset, stored.length)
  }

  private async verify(slices?: Slices): Promise<void> {
    const sum = this.getJson<Sum>(SUM)
    if (sum === undefined) throw corruptCatalog(`entry "${SUM}" is missing`)
    let entries = 0
    let crc = 0
    for (const key of this.db.getKeys({})) {
      if (key === FORMAT || key === SUM) continue
      if (typeof key !== 'string') throw corruptCatalog(`a key cannot be read: "${String(key)}"`)
      const stored = this.look(key)
      if (stored === undefined) throw corruptCatalog(`entry "${key}" cannot be found`)
      decodeValue(key, stored)
      entries++
      crc = (crc ^ storedCrc(stored)) >>> 0
      if (slices !== undefined && entries % slices.size === 0) await slices.next()
    }
    if (entries !== sum.entries) throw corruptCatalog(`it has ${entries} entries, "${SUM}" says ${sum.entries}`)
    if (crc !== sum.crc) throw corruptCatalog(`its entries are not those that "${SUM}" was made from`)
  }
}

function isEmpty(db: KeyValueStore): boolean {
  for (const _ of db.getKeys({ limit: 1 })) return false
  return true
}

/** Plain JSON, so that older code can read the number it refuses; the checksum is a member of it. */
function formatMark(format: number): Uint8Array {
  return Buffer.from(JSON.stringify({ format, crc: markCrc(format) }))
}

const markCrc = (format: number): number => valueCrc(FORMAT, Buffer.from(JSON.stringify({ format })))

function readFormat(db: KeyValueStore): number | undefined {
  const stored = db.get(FORMAT) as Uint8Array | undefined
  if (stored === undefined) return undefined
  const mark = parseMark(stored)
  if (mark === undefined || (mark.crc !== undefined && mark.crc !== markCrc(mark.format))) throw corruptCatalog(`entry "${FORMAT}" cannot be understood`)
  // Version 1 alone had no checksum; a newer one than this without is refused by its number.
  if (mark.crc === undefined && mark.format > 1 && mark.format <= FORMAT_VERSION) throw corruptCatalog(`entry "${FORMAT}" has lost its checksum`)
  return mark.format
}

function parseMark(stored: Uint8Array): { format: number; crc?: number } | undefined {
  try {
    const mark = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(stored)) as { format?: unknown; crc?: unknown }
    return typeof mark?.format === 'number' && (mark.crc === undefined || typeof mark.crc === 'number') ? (mark as { format: number; crc?: number }) : undefined
  } catch {
    return undefined
  }
}

function otherVersion(format: number): SvcError {
  return new SvcError(
    'CONFIG_ERROR',
    `cannot open data directory: its format is version ${format}, this svc reads version ${FORMAT_VERSION}; ${format > FORMAT_VERSION ? 'run the svc that wrote it or a newer one' : 'upgrade it with the release between them'}`,
  )
}

/** A value of version 1 that is whole as far as can be told. */
function parsed(key: string, bytes: Uint8Array): Uint8Array {
  if (BINARY.test(key)) return bytes
  try {
    JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
    return bytes
  } catch (error) {
    throw corruptCatalog(`entry "${key}" is not JSON`, error)
  }
}
