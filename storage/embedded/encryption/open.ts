/** What the engine's parts must know of encrypted fields. */

import type { MeasurementInfo, SeriesResolver, StorageContext } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import type { Static } from 'svcdb/lib/schema'
import type { WorkerConfig } from '../threads/messages.ts'
import type { SegmentMeta } from '../threads/segment-entry.ts'
import { DEFAULT_CACHE_BYTES } from './columns.ts'
import type { encryptionSchema } from './config.ts'
import { KeyRing, readKeys } from './keys.ts'

export interface Encryption {
  keys: KeyRing
  /** What every engine thread gets, and what those for queries get beside it. */
  worker: Pick<WorkerConfig, 'encryption'>
  query: Pick<WorkerConfig, 'noSpill'>
}

/** @throws CONFIG_ERROR, ENCRYPTION_KEY_UNAVAILABLE. */
export function openEncryption(settings: Static<typeof encryptionSchema> | undefined, env: Record<string, string | undefined>): Encryption {
  if (settings === undefined) return { keys: new KeyRing(), worker: {}, query: {} }
  const material = readKeys({ columns: settings.columns ?? {}, keys: settings.keys ?? {} }, env)
  const worker = { encryption: { ...material, cacheBytes: settings.cache_bytes ?? DEFAULT_CACHE_BYTES } }
  return { keys: new KeyRing(material), worker, query: Object.keys(material.keys).length > 0 ? { noSpill: true } : {} }
}

/** The id of a key that the segment needs and the ring lacks. */
export function missingKey(keys: KeyRing, { columns }: SegmentMeta): string | undefined {
  for (const { encoding } of columns) if (encoding.kind === 'encrypted' && !keys.has(encoding.key)) return encoding.key
  return undefined
}

/** Says once a start which keys are wanted for how many segments. */
export function reportMissingKeys(keys: KeyRing, segments: readonly SegmentMeta[], log: StorageContext['log']): void {
  const counts: Record<string, number> = {}
  for (const segment of segments) {
    const key = missingKey(keys, segment)
    if (key !== undefined) counts[key] = (counts[key] ?? 0) + 1
  }
  if (Object.keys(counts).length > 0)
    log.warn(
      { segmentsByKey: counts },
      'segments are encrypted with keys that are not configured: queries of their encrypted fields fail, merges leave them alone',
    )
}

/** Refuses series with a tag of an encrypted name: only fields can be encrypted, and the tag would lie in the clear. */
export function protectTags(resolver: SeriesResolver, columns: readonly string[]): SeriesResolver {
  if (columns.length === 0) return resolver
  const names = columns.map((name) => Buffer.from(name))
  const isNamed = (bytes: Uint8Array, start: number, end: number): boolean =>
    names.some((name) => name.length === end - start && name.every((byte, i) => byte === bytes[start + i]))
  return {
    writeLimits: resolver.writeLimits,
    get epoch() {
      return resolver.epoch
    },
    measurement: (namespace, name) => resolver.measurement(namespace, name),
    series: (measurement, tags) => {
      for (let i = 0; i < tags.length; i += 2) if (tags[i + 1] !== '' && columns.includes(tags[i])) throw refusedTag('INVALID_POINT', 'write point', tags[i])
      return resolver.series(measurement, tags)
    },
    seriesAscii: (measurement, bytes, ranges, pairs) => {
      for (let i = 0; i < pairs; i++) if (isNamed(bytes, ranges[i * 4], ranges[i * 4 + 1])) return -1
      return resolver.seriesAscii?.(measurement, bytes, ranges, pairs) ?? -1
    },
  }
}

/** @param tagKeys those of a measurement. @throws CONFIG_ERROR when one has an encrypted name. */
export function checkTags(
  measurements: Iterable<{ id: number; name: string } | undefined>,
  tagKeys: (measurement: number) => readonly string[],
  columns: readonly string[],
): void {
  if (columns.length === 0) return
  for (const measurement of measurements) {
    if (measurement === undefined) continue
    const keys = tagKeys(measurement.id)
    const tag = columns.find((name) => keys.includes(name))
    if (tag !== undefined) throw refusedTag('CONFIG_ERROR', `encrypt columns of measurement "${measurement.name}"`, tag)
  }
}

function refusedTag(code: 'INVALID_POINT' | 'CONFIG_ERROR', what: string, tag: string): SvcError {
  return new SvcError(
    code,
    `cannot ${what}: "${tag}" is a tag, and [database.field_encryption] columns names it; only fields can be encrypted, rename one of them`,
  )
}

/** Says of each field whether it is to be encrypted. */
export function markEncrypted(keys: KeyRing, info: MeasurementInfo): MeasurementInfo {
  if (!info.fields.some(({ name }) => keys.keyOf(name) !== undefined)) return info
  return { ...info, fields: info.fields.map((field) => (keys.keyOf(field.name) === undefined ? field : { ...field, encrypted: true })) }
}

/** The first field that is configured to be encrypted, or lies encrypted in a segment: what writes rows elsewhere in the clear must refuse it. */
export function encryptedField<F extends { id: number; name: string }>(
  columns: readonly string[],
  fields: readonly F[],
  segments: readonly SegmentMeta[],
): F | undefined {
  const kept = new Set(segments.flatMap(({ columns }) => columns.flatMap(({ field, encoding }) => (encoding.kind === 'encrypted' ? [field] : []))))
  return fields.find(({ id, name }) => columns.includes(name) || kept.has(id))
}
