/**
 * Ids of series: 128 bits of SHA-256 over the life of the measurement and the tags, so that nodes which have never heard of one another write the same id, and
 * chance makes no two series one. As UInt128 they are little-endian.
 */
import { createHash } from 'node:crypto'
import type { LocalSeries } from './resolver.ts'

export const ID_BYTES = 16

export function idOf(series: LocalSeries, life: number): { bytes: Uint8Array; key: string } {
  if (series.id?.life === life) return series.id
  const bytes = seriesId(life, series.tags)
  const id = { life, bytes, key: keyOf(bytes) }
  series.id = id
  return id
}

export function seriesId(life: number, tags: readonly string[]): Uint8Array {
  return createHash('sha256')
    .update(`${life}\0${tags.join('\0')}`)
    .digest()
    .subarray(0, ID_BYTES)
}

/** Ids as keys of maps. */
export function keyOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, ID_BYTES).toString('latin1')
}

/** As ClickHouse reads it in a statement. */
export function literalOf(key: string): string {
  return `toUInt128('${BigInt(`0x${Buffer.from(key, 'latin1').reverse().toString('hex')}`)}')`
}

/** Its order among others as a number of 31 bits. */
export function placeOfId(key: string): number {
  const bytes = Buffer.from(key, 'latin1')
  return bytes.readUInt32LE(12) >>> 1
}
