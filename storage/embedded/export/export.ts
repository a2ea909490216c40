/**
 * Writes a measurement to one self-contained Parquet file: slice by slice, each sorted, merged and encoded by DuckDB into a file of its own, whose row
 * groups are then joined to the output. Memory is bounded by a slice, scratch space by its file, whatever the measurement's size.
 *
 * The output appears whole or not at all. Rows are ordered by stretch of time, series, time.
 */
import type { ExportRequest, ExportResult } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { joinExport, ROW_GROUP_ROWS } from '../../common/export/join-export.ts'
import { sqlName, sqlText } from '../duckdb/duckdb.ts'
import { encryptedField } from '../encryption/open.ts'
import { SERIES_COLUMN, TIME_COLUMN } from '../memtable/memtable-source.ts'
import { type RelationContext, sourcesOf } from '../read/relation.ts'
import { scanScope } from '../read/scan.ts'
import { type Source, unionSql } from '../read/sources.ts'
import { NO_DICTIONARIES, needsExactBits } from '../segment/encoding.ts'
import { dictionariesOf, type TagColumn, tagColumns, tagSource } from '../series/tag-source.ts'
import type { MeasurementDef } from '../threads/definitions.ts'
import type { WorkerConfig } from '../threads/messages.ts'
import type { Snapshot } from '../threads/state.ts'
import { ExportDuck } from './export-duck.ts'
import { type Slice, slices } from './export-slices.ts'

export interface ExportTask {
  request: ExportRequest
  /** The name the file has while it grows; in the directory of `request.path`, and not in use. */
  unfinished: string
  /** For slices; in the engine's scratch space, and not in use. */
  scratch: string
  /** Names of fields that are configured to be encrypted. */
  encrypted: readonly string[]
  config: Pick<WorkerConfig, 'compression' | 'zstdLevel' | 'memoryLimitBytes'>
}

/** Share of the memory that the rows of a slice take: sorting, merging and encoding hold them several times. */
const SLICE_SHARE = 1 / 8
/** Larger ones gain nothing. */
const MAX_SLICE_BYTES = 64 << 20

/** @throws NOT_FOUND, STORAGE_FULL; and whatever `signal` says. Nothing is left behind then. */
export async function exportMeasurement(
  context: RelationContext,
  snapshot: Snapshot,
  task: ExportTask,
  signal: AbortSignal | undefined,
): Promise<ExportResult> {
  const { request, unfinished, scratch } = task
  const { measurement, time } = scanScope(context, request)
  refuseEncrypted(snapshot, measurement, task.encrypted)
  await context.verifier?.ensureSources(sourcesOf(context.state, snapshot, measurement, time, undefined), signal)
  const { series: view } = context.state
  const series = view.of(measurement.id)
  // Series that come meanwhile may bring new tags.
  const tags = tagColumns(measurement, view.tagKeys(measurement.id))
  const duck = new ExportDuck({ context, snapshot, measurement, time })
  const input: ExportInput = { duck, snapshot, measurement, tags }
  const sliceBytes = Math.min(MAX_SLICE_BYTES, task.config.memoryLimitBytes * SLICE_SHARE)
  async function* parts(): AsyncGenerator<void> {
    await writePart(input, undefined, task, signal)
    yield
    for await (const slice of slices({ ...input, time, series, tagKeys: tags.map(({ key }) => key), sliceBytes, signal })) {
      await writePart(input, slice, task, signal)
      signal?.throwIfAborted()
      yield
    }
  }
  try {
    return await joinExport({ path: request.path, unfinished, part: scratch, maxBytes: request.maxBytes }, parts())
  } finally {
    await duck.close()
  }
}

/** An export would write in the clear what the database keeps encrypted. */
function refuseEncrypted(snapshot: Snapshot, { name, fields, tables }: MeasurementDef, encrypted: readonly string[]): void {
  const segments = tables.flatMap((table) => snapshot.table(table).segments)
  const found = encryptedField(encrypted, fields, segments)
  if (found === undefined) return
  throw new SvcError('INVALID_REQUEST', `cannot export measurement "${name}": its field "${found.name}" is encrypted, and the file would not be`)
}

interface ExportInput {
  duck: ExportDuck
  snapshot: Snapshot
  measurement: MeasurementDef
  tags: readonly TagColumn[]
}

async function writePart(input: ExportInput, slice: Slice | undefined, { scratch, config }: ExportTask, signal: AbortSignal | undefined): Promise<void> {
  const { snapshot, measurement, tags } = input
  const { fields } = measurement
  const time = slice?.time ?? [0n, 0n]
  const series = slice?.series ?? new Int32Array(0)
  const sources = slice === undefined ? [] : sourcesOf(input.duck.state, snapshot, measurement, time, series)
  const options = copyOptions(config, mayHoldNegativeZero(sources, measurement))
  await input.duck.run(async ({ state, duck, dataDir }) => {
    const calls: string[] = []
    const union = unionSql({ duck, dataDir, sources, time, fields, series, calls })
    let tables = `(${union.sql}) p`
    if (tags.length > 0) {
      const enumerated = tags.map((tag) => ({ ...tag, enumerated: true }))
      const call = duck.addSource(tagSource(state.series, dictionariesOf(state.series, series), measurement.id, series, enumerated))
      calls.push(call)
      tables += ` JOIN ${call} t ON t.${SERIES_COLUMN} = p.${SERIES_COLUMN}`
    }
    const columns = [`p.${TIME_COLUMN}`, ...tags.map(({ column }) => `t.${sqlName(column)}`), ...fields.map(({ column }) => `p.${sqlName(column)}`)]
    const sql = `SELECT ${columns.join(', ')} FROM ${tables} ORDER BY p.${SERIES_COLUMN}, p.${TIME_COLUMN}`
    try {
      await duck.run(`COPY (${sql}) TO ${sqlText(scratch)} (${options})`, signal)
    } finally {
      for (const call of calls) duck.removeSource(call)
    }
  })
}

/** Tags are ENUMs, which are always written as dictionaries. The joiner takes neither bloom filters nor page indexes. */
function copyOptions({ compression, zstdLevel }: ExportTask['config'], negativeZero: boolean): string {
  const codec = compression === 'none' ? 'UNCOMPRESSED' : compression === 'lz4' ? 'LZ4_RAW' : `ZSTD, COMPRESSION_LEVEL ${zstdLevel}`
  // A dictionary of numbers takes -0 and 0 for one value.
  const plain = negativeZero ? NO_DICTIONARIES : ''
  return `FORMAT PARQUET, PARQUET_VERSION V2, COMPRESSION ${codec}, ROW_GROUP_SIZE ${ROW_GROUP_ROWS}, WRITE_BLOOM_FILTER false, USE_TMP_FILE false${plain}`
}

/** Segments know; a memtable would have to be searched. */
function mayHoldNegativeZero(sources: readonly Source[], { fields }: MeasurementDef): boolean {
  if (!fields.some(({ type }) => type === 'float64')) return false
  return sources.some(({ segment }) => segment === undefined || segment.columns.some(needsExactBits))
}
