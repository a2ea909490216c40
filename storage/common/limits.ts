/**
 * The admission keys of [database] that every engine shares, with what bounds its conditions, and their values as the rules of this folder take them.
 * Engines spread `admissionKeys` into their own configuration schema.
 */

import type { WriteLimits } from 'svcdb/lib/columns'
import { REGEX_TIMEOUT_MS } from 'svcdb/lib/regex'
import { Type } from 'svcdb/lib/schema'

export const admissionKeys = {
  shard_duration_secs: Type.Integer({
    default: 3600,
    minimum: 60,
    maximum: 31_536_000,
    description: 'Width of a time shard; the out-of-order window is counted in shards',
  }),
  ooo_shard_tolerance: Type.Integer({
    default: 48,
    minimum: 0,
    maximum: 1_000_000,
    description: 'How many shards behind the newest admitted write, or the server clock if that is earlier, a live point may lie; older points need backfill',
  }),
  future_write_tolerance_secs: Type.Integer({
    default: 3600,
    minimum: 0,
    maximum: 3_153_600_000,
    description: 'How far past the server clock a point may lie',
  }),
  max_series_cardinality: Type.Integer({
    default: 1_000_000,
    minimum: 1,
    maximum: 1_000_000_000,
    description:
      'Live series in all; a point that would start one more is refused. With plugin namespaces and multi_tenancy one namespace has at most three quarters',
  }),
  max_name_bytes: Type.Integer({
    default: 256,
    minimum: 16,
    maximum: 4096,
    description: 'Longest measurement name, tag key or field name, in bytes of UTF-8',
  }),
  max_tag_value_bytes: Type.Integer({ default: 4096, minimum: 16, maximum: 65_536, description: 'Longest tag value, in bytes of UTF-8' }),
  max_tags_per_series: Type.Integer({ default: 64, minimum: 1, maximum: 1024, description: 'Tags of one series' }),
  max_tags_per_measurement: Type.Integer({
    default: 1024,
    minimum: 1,
    maximum: 65_536,
    description: 'Tag keys of all series of one measurement together; a point whose series would bring one more is refused',
  }),
  max_fields_per_measurement: Type.Integer({ default: 1024, minimum: 1, maximum: 65_536, description: 'Fields of one measurement' }),
  max_fields: Type.Integer({
    default: 500_000,
    minimum: 1,
    maximum: 1_000_000_000,
    description:
      'Fields of all measurements together, each of which takes one to two kilobytes of memory; a point that would bring one more is refused. With plugin namespaces and multi_tenancy one namespace has at most three quarters',
  }),
  max_fields_per_write: Type.Integer({
    default: 131_072,
    minimum: 1024,
    maximum: 16_777_216,
    description: 'Fields of all measurements of one write together; each takes about a kilobyte while it is under way',
  }),
  max_cells_per_write: Type.Integer({
    default: 16_777_216,
    minimum: 65_536,
    maximum: 1_073_741_824,
    description:
      'Points times fields, set or not, of all measurements of one write together, beyond the first 16 points of each; a cell takes about 8 bytes while it is under way',
  }),
  max_string_bytes: Type.Integer({ default: 65_536, minimum: 1, maximum: 16_777_216, description: 'Longest string field value, in bytes of UTF-8' }),
  regex_timeout_ms: Type.Integer({
    default: REGEX_TIMEOUT_MS,
    minimum: 1,
    maximum: 60_000,
    description:
      'What the regular expressions of one selection, or the LIKE patterns of a statement on tags, may take together, over all values they are tried on; above: 400',
  }),
}

export interface Limits {
  shardDurationSecs: number
  oooShardTolerance: number
  futureWriteToleranceSecs: number
  maxSeriesCardinality: number
  maxNameBytes: number
  maxTagValueBytes: number
  maxTagsPerSeries: number
  maxTagsPerMeasurement: number
  maxFieldsPerMeasurement: number
  maxFields: number
  writeLimits: WriteLimits
  maxStringBytes: number
  regexTimeoutMs: number
}

/** @param config the resolved [database] section; a key that is absent takes its default. */
export function limitsOf(config: Record<string, unknown>): Limits {
  const read = (key: keyof typeof admissionKeys): number => {
    const value = config[key]
    return typeof value === 'number' ? value : (admissionKeys[key] as unknown as { default: number }).default
  }
  return {
    shardDurationSecs: read('shard_duration_secs'),
    oooShardTolerance: read('ooo_shard_tolerance'),
    futureWriteToleranceSecs: read('future_write_tolerance_secs'),
    maxSeriesCardinality: read('max_series_cardinality'),
    maxNameBytes: read('max_name_bytes'),
    maxTagValueBytes: read('max_tag_value_bytes'),
    maxTagsPerSeries: read('max_tags_per_series'),
    maxTagsPerMeasurement: read('max_tags_per_measurement'),
    maxFieldsPerMeasurement: read('max_fields_per_measurement'),
    maxFields: read('max_fields'),
    writeLimits: { fields: read('max_fields_per_write'), cells: read('max_cells_per_write') },
    maxStringBytes: read('max_string_bytes'),
    regexTimeoutMs: read('regex_timeout_ms'),
  }
}
