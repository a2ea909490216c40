/**
 * What the first question about data finds out and every later one knows: which series and tags measurements have, which times lie in the blocks of memtables.
 * It is in memory all along and linear in series and rows; no file is read.
 */
import { BLOCK_ROWS } from '../memtable/chunk-view.ts'
import type { WorkerState } from '../threads/state.ts'

/** The tags of more series are looked through when somebody asks for them. */
const MAX_SERIES = 100_000

/** Looks through all of it, a measurement or a chunk of a memtable at a time. */
export function* lookThrough({ series, measurements, memtables }: Pick<WorkerState, 'series' | 'measurements' | 'memtables'>): Generator<void> {
  for (const id of measurements.keys()) {
    yield
    if (series.of(id).length <= MAX_SERIES) series.tagKeys(id)
  }
  for (const { tables } of memtables)
    for (const { chunks } of tables.values())
      for (const chunk of chunks) {
        yield
        for (let from = 0; from + BLOCK_ROWS <= chunk.published(); from += BLOCK_ROWS) chunk.blockIntersects(from, BLOCK_ROWS, 0n, 0n)
      }
}
