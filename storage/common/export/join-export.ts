/** An export's file out of parts. It appears whole or not at all: written under another name, synced, renamed. */
import { basename, dirname } from 'node:path'
import type { ExportResult } from 'svcdb'
import { classify, SvcError } from 'svcdb/lib/errors'
import { type FileCalls, makeFolder, realFileCalls, syncFolder } from 'svcdb/lib/files'
import type { JoinedColumn } from '../parquet/joined-columns.ts'
import { ParquetJoiner } from '../parquet/parquet-joiner.ts'
import type { ExportPaths } from './export-files.ts'

/** Of a file's row groups, about: what a thread of DuckDB reads at a time. */
export const ROW_GROUP_ROWS = 122_880

interface JoinedExport extends Omit<ExportPaths, 'number'> {
  /** As in a request. */
  maxBytes: number
  /** What the columns are called and mean; as in the parts when absent. */
  columns?: readonly JoinedColumn[]
}

/**
 * @param parts says each time that `part` has been written anew. The first has no rows, so that a file that is cut, or has none, has its columns.
 * @throws STORAGE_FULL, and what `parts` throws. Nothing is left behind then.
 */
export async function joinExport(
  { path, unfinished, part, maxBytes, columns }: JoinedExport,
  parts: AsyncIterable<void>,
  calls: FileCalls = realFileCalls,
): Promise<ExportResult> {
  await makeFolder(dirname(path), calls)
  const joiner = await ParquetJoiner.create(unfinished, columns)
  const limit = maxBytes === 0 ? Number.POSITIVE_INFINITY : maxBytes
  let truncated = false
  let made = unfinished
  try {
    try {
      for await (const _ of parts) {
        truncated = !(await joiner.append(part, limit))
        if (truncated) break
      }
      const bytes = await joiner.finish()
      await calls.rename(unfinished, path)
      made = path
      await syncFolder(dirname(path), calls)
      return { path, rows: joiner.rows, bytes, truncated }
    } finally {
      await joiner.close()
      await calls.rm(part, { force: true })
    }
  } catch (error) {
    // Where even that fails the rest stays; the caller is told what failed first.
    await calls.rm(made, { force: true }).catch(() => {})
    throw classify(error).code === 'STORAGE_FULL' ? full(path, error) : error
  }
}

function full(path: string, cause: unknown): SvcError {
  return new SvcError('STORAGE_FULL', `cannot export to "${basename(path)}": no space left for it; free space, or choose another folder`, { cause })
}
