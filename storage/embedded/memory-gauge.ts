/** Resident memory of the process by who has it; docs/decisions/052-one-memory-budget.md. */
import { readFileSync } from 'node:fs'
import type { Metrics } from 'svcdb'
import type { Memtables } from './memtable/memtables.ts'
import type { SlabPool } from './memtable/slabs.ts'
import type { SeriesIndex } from './series/series-index.ts'
import type { WorkerPool } from './threads/pool/pool.ts'
import { heapBytes } from './threads/usage.ts'

interface MemorySources {
  memtables: Memtables
  slabs: SlabPool
  index: SeriesIndex
  pool: WorkerPool
}

/** Native memory of the process before the database was opened: Node.js itself, and what it has loaded. */
export interface BaseMemory {
  bytes: number
}

/** Call before the engine threads start. */
export function baseMemory(): BaseMemory {
  const { rss, arrayBuffers } = process.memoryUsage()
  return { bytes: Math.max(0, rss - fileBytes() - heapBytes() - arrayBuffers) }
}

/** Bytes of each consumer; `other` is what is left of resident memory. */
async function memoryByConsumer({ memtables, slabs, index, pool }: MemorySources, base: BaseMemory): Promise<Record<string, number>> {
  const threads = await pool.usage()
  const { rss, arrayBuffers } = process.memoryUsage()
  const sum = (of: (usage: (typeof threads)[number]) => number): number => threads.reduce((total, usage) => total + of(usage), 0)
  const free = slabs.freeBytes + slabs.retiredBytes
  const series = index.memory + memtables.times.memory
  const own = {
    memtable: memtables.memory,
    memtable_free: free,
    series,
    buffers_main: Math.max(0, arrayBuffers - memtables.memory - free - series),
    heap_main: heapBytes(),
    heap_engine: sum((usage) => usage.heapBytes),
    sample_cache: pool.sampleBytes,
    buffers_engine: Math.max(0, sum((usage) => usage.bufferBytes) - pool.sampleBytes),
    duckdb: sum((usage) => usage.duckdbBytes),
    files: fileBytes(),
    base: base.bytes,
  }
  return { ...own, other: Math.max(0, rss - Object.values(own).reduce((total, bytes) => total + bytes, 0)) }
}

export function memoryGauge(metrics: Metrics, sources: MemorySources, base: BaseMemory): void {
  metrics.gauge(
    'memory_bytes',
    'Resident memory by consumer: memtable; memtable_free, kept for the next ones or still read; series; buffers_main and buffers_engine outside the heaps of V8; heap_main, heap_engine; sample_cache; duckdb; files: programs and the catalog, mapped; base: of Node.js at the start; other: reserves of allocators, stacks',
    ['consumer'],
    async (gauge) => {
      for (const [consumer, bytes] of Object.entries(await memoryByConsumer(sources, base))) gauge.set({ consumer }, bytes)
    },
  )
}

/** Of files that are mapped, as far as they are in memory; 0 where the system does not say. */
function fileBytes(): number {
  try {
    return Number(/^RssFile:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? 0) * 1024
  } catch {
    return 0
  }
}
