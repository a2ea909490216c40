/**
 * Symbols are only ever added while the database is open, so texts of series that are long gone would stay for ever. When the catalog has just been loaded
 * nobody holds a symbol's number: those that no series uses any more are left out then, and the others move up. One transaction: a crash leaves
 * the old numbers or the new. Numbers of series stay, for segments and the log name them.
 */
import type { StorageContext } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { ByteReader, ByteWriter } from '../../common/log/bytes.ts'
import type { SeriesIndex } from '../series/series-index.ts'
import { BLOCK, blockKey } from './catalog.ts'
import type { CatalogStore, CatalogWrites } from './store.ts'

/** With fewer unused symbols, or fewer than used ones, the catalog is left as it is. */
const MIN_UNUSED = 8192

/** Whether leaving out what no series of an index just loaded uses is worth it. */
export function hasManyUnused({ symbols, tags, offsets, count }: SeriesIndex): boolean {
  const total = symbols.count
  if (total < MIN_UNUSED) return false
  const used = new Uint8Array(total)
  used[0] = 1 // the empty text
  let found = 1
  for (let i = 0, end = offsets[count]; i < end; i++) {
    if (used[tags[i]] === 1) continue
    used[tags[i]] = 1
    // Mostly known long before all are looked at.
    if (!isWorth(total, ++found)) return false
  }
  return isWorth(total, found)
}

const isWorth = (total: number, used: number): boolean => total - used >= MIN_UNUSED && total - used >= used

/** @returns symbols given back; on a full disk none, and the next start tries again. */
export async function dropUnusedSymbols(store: CatalogStore, log: StorageContext['log']): Promise<number> {
  try {
    const symbols = await renumber(store)
    if (symbols > 0) log.info({ symbols }, 'gave back tag texts of series that are gone')
    return symbols
  } catch (error) {
    if (!(error instanceof SvcError) || error.code !== 'STORAGE_FULL') throw error
    log.warn({ err: error }, 'cannot give back tag texts of series that are gone')
    return 0
  }
}

async function renumber(store: CatalogStore): Promise<number> {
  const symbolBlocks = blocksOf(store, 'symbols')
  const total = symbolBlocks.reduce((sum, bytes) => sum + new ByteReader(bytes).varint(), 0)
  if (total < MIN_UNUSED) return 0
  const seriesBlocks = blocksOf(store, 'series')
  const used = new Uint8Array(total)
  used[0] = 1 // the empty text
  for (const bytes of seriesBlocks)
    eachTag(bytes, undefined, (symbol) => {
      used[symbol] = 1
      return symbol
    })
  const numbers = new Int32Array(total)
  let kept = 0
  for (let symbol = 0; symbol < total; symbol++) if (used[symbol] === 1) numbers[symbol] = kept++
  if (!isWorth(total, kept)) return 0
  await store.transaction((tx) => {
    const blocks = putSymbols(tx, symbolBlocks, used)
    for (let block = blocks; block < symbolBlocks.length; block++) tx.remove(blockKey('symbols', block))
    for (const [block, bytes] of seriesBlocks.entries()) {
      const out = new ByteWriter(bytes.length)
      eachTag(bytes, out, (symbol) => numbers[symbol])
      tx.put(blockKey('series', block), Buffer.from(out.bytes.subarray(0, out.length)))
    }
  })
  return total - kept
}

/** @returns the number of blocks. */
function putSymbols(tx: CatalogWrites, blocks: readonly Uint8Array[], used: Uint8Array): number {
  let written = 0
  let count = 0
  let texts = new ByteWriter(1 << 14)
  const put = (): void => {
    const out = new ByteWriter(texts.length + 8)
    out.varint(count)
    out.put(texts.bytes.subarray(0, texts.length))
    tx.put(blockKey('symbols', written++), Buffer.from(out.bytes.subarray(0, out.length)))
    texts = new ByteWriter(1 << 14)
    count = 0
  }
  let symbol = 0
  for (const bytes of blocks) {
    const reader = new ByteReader(bytes)
    for (let n = reader.varint(); n > 0; n--) {
      const length = reader.varint()
      const at = reader.take(length)
      if (used[symbol++] === 0) continue
      texts.varint(length)
      texts.put(reader.bytes.subarray(at, at + length))
      if (++count === BLOCK) put()
    }
  }
  if (count > 0) put()
  return written
}

/** Reads a block of series, and writes it to `out` with what `replace` gives for each symbol. */
function eachTag(bytes: Uint8Array, out: ByteWriter | undefined, replace: (symbol: number) => number): void {
  const reader = new ByteReader(bytes)
  const copy = (): number => {
    const value = reader.varint()
    out?.varint(value)
    return value
  }
  for (let series = copy(); series > 0; series--) {
    if (copy() === 0) continue // given back
    for (let symbols = copy() * 2; symbols > 0; symbols--) {
      const symbol = replace(reader.varint())
      out?.varint(symbol)
    }
  }
}

function blocksOf(store: CatalogStore, kind: string): Uint8Array[] {
  const blocks: Uint8Array[] = []
  for (let block = 0; ; block++) {
    const bytes = store.get(blockKey(kind, block))
    if (bytes === undefined) return blocks
    blocks.push(bytes)
  }
}
