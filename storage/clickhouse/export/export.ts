/**
 * Writes a measurement to one self-contained Parquet file: slice by slice, each merged, sorted and encoded by ClickHouse and streamed to a file of its own,
 * whose row groups are then joined to the output. Memory here is that of a few chunks, memory there is bounded by a slice, whatever the measurement's size.
 * Each slice is a statement of its own, and sees ClickHouse as it is when it begins.
 */
import { writeFile } from 'node:fs/promises'
import type { ExportRequest, ExportResult } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import type { ExportPaths } from '../../common/export/export-files.ts'
import { joinExport } from '../../common/export/join-export.ts'
import type { JoinedColumn } from '../../common/parquet/joined-columns.ts'
import { INT64_MIN, later } from '../../common/time.ts'
import type { Life } from '../catalog.ts'
import type { QueryOptions } from '../client.ts'
import type { ReaderContext } from '../reader.ts'
import { type SqlLife, sqlLife } from '../sql/relation.ts'
import { slices } from './slices.ts'
import { type ExportScope, PARQUET_SETTINGS, type Slice, sliceStatement, type TimeRange } from './statements.ts'

export interface ExportContext extends Pick<ReaderContext, 'client' | 'place' | 'series' | 'keptFrom' | 'ready'> {
  /** Bytes that one statement may take in ClickHouse. */
  memory: number
  /** @throws whatever has become of the measurement: its rows may have gone. */
  requireLife(life: Life): Promise<void>
}

/** Share of the memory that the rows of a slice take: merging, joining, sorting and encoding hold them several times. */
const SLICE_SHARE = 1 / 8
/** Larger ones gain nothing. */
const MAX_SLICE_BYTES = 64 << 20
/** Has no series. */
const NOTHING: Slice = { between: [1n, 0n], start: undefined, end: undefined }
/** What a tag takes beside its text. */
const TEXT_BYTES = 17
const MAGIC = 'PAR1'
const UNKNOWN_TABLE = '60'

/** @throws STORAGE_FULL, what a read throws, and whatever the signal says. Nothing is left behind then. */
export async function exportMeasurement(
  context: ExportContext,
  life: Life,
  request: ExportRequest,
  paths: ExportPaths,
  bounds: QueryOptions,
): Promise<ExportResult> {
  const { client, series, place } = context
  await context.ready(life)
  const tagKeys = (await series.tagKeys(life.namespace, [life])).get(life.number) ?? []
  const named = sqlLife(life, tagKeys)
  // Fields may have come meanwhile.
  await context.ready(life)
  const scope: ExportScope = { place, life, fields: [...named.fields.values()], tagKeys: [...named.tags.values()] }
  const tagBytes = (await series.tagBytes(life, bounds)) + TEXT_BYTES * tagKeys.length
  const sliceBytes = Math.min(MAX_SLICE_BYTES, context.memory * SLICE_SHARE)
  async function* parts(): AsyncGenerator<void> {
    await writePart(context, scope, NOTHING, paths.part, bounds)
    yield
    for await (const slice of slices({ client, bounds, scope, time: timeOf(context, life, request), tagBytes, sliceBytes })) {
      await writePart(context, scope, slice, paths.part, bounds)
      await context.requireLife(life)
      yield
    }
    await context.requireLife(life)
  }
  return joinExport({ ...paths, maxBytes: request.maxBytes, columns: columnsOf(named) }, parts())
}

/** Without what retention hides. */
function timeOf({ keptFrom }: ExportContext, life: Life, { start, end }: ExportRequest): TimeRange {
  const kept = keptFrom(life)
  return { start: kept === INT64_MIN ? start : later(start ?? kept, kept), end }
}

function columnsOf({ tags, fields }: SqlLife): JoinedColumn[] {
  return [
    { name: '_time', as: 'local' },
    ...[...tags.keys()].map((name) => ({ name })),
    ...[...fields].map(([name, { type }]): JoinedColumn => (type === 'histogram' ? { name, as: 'bytes' } : { name })),
  ]
}

async function writePart({ client }: ExportContext, scope: ExportScope, slice: Slice, path: string, bounds: QueryOptions): Promise<void> {
  const { statement, params } = sliceStatement(scope, slice)
  const meaning = (code: string): SvcError | undefined => (code === UNKNOWN_TABLE ? dropped(scope.life) : undefined)
  await writeFile(path, whole(client.parquet(statement, { ...bounds, params, meaning, settings: PARQUET_SETTINGS })))
  bounds.signal?.throwIfAborted()
}

/** An error that comes when the answer has begun ends it early. */
async function* whole(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let end = Buffer.alloc(0)
  for await (const chunk of bytes) {
    yield chunk
    end = Buffer.concat([end, chunk.subarray(-MAGIC.length)]).subarray(-MAGIC.length)
  }
  if (end.toString('latin1') !== MAGIC)
    throw new SvcError('OVERLOADED', 'cannot export: the answer of ClickHouse ends early; its log says why, less memory or time than the rows need is usual')
}

export function dropped({ name }: Life): SvcError {
  return new SvcError('NOT_FOUND', `cannot export measurement "${name}": it has been dropped meanwhile`)
}
