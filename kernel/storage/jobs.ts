/** What a plugin runs beside the data: a module that the engine loads, its arguments, its output and its result. */
import type { Reader } from './storage.ts'

/** What a job has besides its reader and its arguments. */
export interface JobIo {
  signal: AbortSignal
  /** Hands bytes to the caller. Resolves when there is room for more. The buffer belongs to the caller afterwards. */
  emit(bytes: Uint8Array): Promise<void>
  /** Of jobs with the same `JobOptions.partialKey`. Absent: nothing is kept for them. */
  partial?: PartialResult
}

/** What a job leaves to later ones whose answers overlap with its own: values of steps of a range, say. */
export interface PartialResult {
  /** What the last of them has kept; others read it as well. Absent: nothing. */
  readonly bytes?: Uint8Array
  /** Times of rows that were written, deleted or expired since `bytes` were computed: from and to in nanoseconds, both included. Whatever follows from these no longer holds. */
  readonly changed: readonly (readonly [bigint, bigint])[]
  /** Bytes that may be kept. */
  readonly maxBytes: number
  /** To be kept, in the place of what was: it must follow from rows alone, and not from labels or columns that are there without rows. Copied. */
  keep(bytes: Uint8Array): void
}

/**
 * The default export of a job module. `args` and the result cross threads: structured-cloneable values only. A job that has emitted nothing yet may be stopped, by `signal`, and
 * run again from its beginning on a later snapshot: what it does apart from its output has to bear that.
 */
export type Job<A = unknown, R = unknown> = (reader: Reader, args: A, io: JobIo) => Promise<R>

/** For whom a job is run, for how long, and whether its answer may be shared or kept. */
export interface JobOptions {
  /** Whose the job is, where namespaces are kept apart: no one of them gets all that may run at once. Absent or empty = nobody's. */
  namespace?: string
  /** Nobody waits for it: it does not take turns with questions. Where an engine tells no difference it is a job like others. */
  background?: boolean
  /**
   * Equal jobs, of the same namespace, module and args, may be answered by one that has not begun when the last of them is asked for. Only for args that are JSON, for jobs
   * whose answer follows from args and stored points alone, and for callers who do not change its result, which others have as well.
   */
  shared?: boolean
  /**
   * With `shared`: its answer does not follow from the time it is asked at either. An engine may keep it, and give it again for as long as no point has changed that it follows
   * from; so its result, beside the output, is to be small. The embedded engine does, others ignore it.
   */
  cacheable?: boolean
  /**
   * With `cacheable`: what jobs of the same namespace and module have in common whose answers overlap, such as a query and its step. An engine may give each what an earlier one
   * has kept (`JobIo.partial`).
   */
  partialKey?: string
  signal?: AbortSignal
  /** @throws QUERY_TIMEOUT after this long; 0 = none. */
  timeoutMs?: number
  /** The setting to name in the timeout's text. */
  timeoutSetting?: string
}

/** A job under way. @param R what its module returns. */
export interface RunningJob<R> {
  /** What the job emits, in order. Must be consumed or `cancel` called. */
  output: AsyncIterable<Uint8Array>
  result: Promise<R>
  /** Bytes of the output that nobody has taken yet, also of a job that has ended. Absent: not known. */
  readonly waiting?: number
  cancel(): void
}
