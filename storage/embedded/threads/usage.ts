/** What a thread's own memory is: heap of V8, buffers, DuckDB. */
import { getHeapStatistics } from 'node:v8'
import type { Duck } from '../duckdb/duckdb.ts'

export interface ThreadUsage {
  /** Bytes of the heap that are in memory. */
  heapBytes: number
  /** Bytes of buffers outside the heap, kept samples among them, shared ones of other threads not. */
  bufferBytes: number
  /** Bytes that DuckDB counts as its own. */
  duckdbBytes: number
}

export const heapBytes = (): number => getHeapStatistics().total_physical_size

export async function threadUsage(duck: Duck): Promise<ThreadUsage> {
  return { heapBytes: heapBytes(), bufferBytes: process.memoryUsage().arrayBuffers, duckdbBytes: await duck.memory() }
}
