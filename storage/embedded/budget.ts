/** How the memory of a node is divided: docs/decisions/052-one-memory-budget.md. */
import { availableParallelism, totalmem } from 'node:os'
import { SvcError } from 'svcdb/lib/errors'

const MIB = 1 << 20
export const LEAST_MEMORY = 256 * MIB
/** DuckDB does not run in less. */
export const LEAST_DUCKDB = 64 * MIB
const MACHINE_SHARE = 1 / 4
/** Flushes go on while the next memtable fills: a memtable has this share of what all may take. */
const MEMTABLE_SHARE = 1 / 4

/** Keys of [database] that are parts of the budget. */
interface MemoryKeys {
  max_memory: number
  memtable_flush_threshold: number
  max_memtable_memory: number
  sample_cache_size: number
  per_query_memory_limit: number
  merge_memory_limit: number
  query_threads: number
}
type Parts = Omit<MemoryKeys, 'max_memory' | 'query_threads'>

/** What memtable_flush_threshold, and what the cache and queries, may be at the least and the most. */
export const LEAST_THRESHOLD = 64 << 10
export const MOST_OF_PART = 2 ** 40

/** What the parts have where there is no want of memory. */
export const USUAL: Parts = {
  memtable_flush_threshold: 64 * MIB,
  max_memtable_memory: 256 * MIB,
  sample_cache_size: 256 * MIB,
  per_query_memory_limit: 256 * MIB,
  merge_memory_limit: 128 * MIB,
}

/** A quarter of the machine's memory, or of what its control group may have. */
export function machineBudget(total: number = totalmem(), constrained: number = process.constrainedMemory()): number {
  // Without a limit the second is 0, or more than there is.
  const memory = constrained > 0 ? Math.min(total, constrained) : total
  return Math.max(LEAST_MEMORY, Math.floor(memory * MACHINE_SHARE))
}

export const queryThreadsOf = (queryThreads: number): number => queryThreads || Math.max(1, Math.min(4, availableParallelism() - 1))

/**
 * Values of the keys that are not written. Memtables and merges gain nothing from more than usual; the cache and queries do, and have more where a
 * budget is written.
 * @param given keys as they are written: what is none of a key's values is refused elsewhere, and counts as not written. @param machine bytes where no budget is.
 */
export function divide(given: Readonly<Partial<Record<keyof MemoryKeys, unknown>>>, machine: number = machineBudget()): Parts {
  const written = bytesOf(given.max_memory) ?? 0
  const budget = written || machine
  const growing = (share: number, usual: number): number => (written > 0 ? share : Math.min(share, usual))
  const memtables = Math.max(MIB, Math.min(USUAL.max_memtable_memory, whole(budget / 4)))
  const threads = queryThreadsOf(bytesOf(given.query_threads) ?? 0)
  const quarter = Math.floor((bytesOf(given.max_memtable_memory) ?? memtables) * MEMTABLE_SHARE)
  const most = (bytes: number): number => Math.min(MOST_OF_PART, bytes)
  return {
    max_memtable_memory: memtables,
    memtable_flush_threshold: Math.max(LEAST_THRESHOLD, Math.min(USUAL.memtable_flush_threshold, whole(quarter) || quarter)),
    sample_cache_size: Math.max(MIB, most(growing(whole(budget / 4), USUAL.sample_cache_size))),
    per_query_memory_limit: Math.max(LEAST_DUCKDB, most(growing(whole(budget / 4 / threads), USUAL.per_query_memory_limit))),
    merge_memory_limit: Math.max(LEAST_DUCKDB, Math.min(USUAL.merge_memory_limit, whole(budget / 8))),
  }
}

const bytesOf = (value: unknown): number | undefined => (Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : undefined)
const whole = (bytes: number): number => Math.floor(bytes / MIB) * MIB

/** @throws CONFIG_ERROR when the parts are more than the budget that is written. */
export function checkBudget(config: MemoryKeys): void {
  const { max_memory, max_memtable_memory, sample_cache_size, per_query_memory_limit, merge_memory_limit } = config
  if (max_memory === 0) return
  const threads = queryThreadsOf(config.query_threads)
  const sum = max_memtable_memory + sample_cache_size + per_query_memory_limit * threads + merge_memory_limit
  if (sum <= max_memory) return
  throw new SvcError(
    'CONFIG_ERROR',
    `cannot use [database] max_memory = ${max_memory}: its parts are ${sum} (max_memtable_memory = ${max_memtable_memory}, sample_cache_size = ${sample_cache_size}, per_query_memory_limit = ${per_query_memory_limit} for each of ${threads} query threads, merge_memory_limit = ${merge_memory_limit}); raise it, lower or leave out one of them, or have fewer query_threads`,
  )
}
