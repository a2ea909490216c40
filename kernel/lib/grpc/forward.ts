import type { SendMessage } from './method.ts'

/** Work that yields messages; a `RunningJob` of the storage is one. */
export interface EmittingJob {
  readonly output: AsyncIterable<Uint8Array>
  /** Settles when the work is over. */
  readonly result: Promise<unknown>
  cancel(): void
}

/** Sends what a job emits, message by message. A job that fails, out of time perhaps, is not kept waiting by a client that does not read. */
export async function forward(job: EmittingJob, send: SendMessage): Promise<void> {
  const failed = job.result.then(() => new Promise<never>(() => {}))
  failed.catch(() => {}) // the output fails with the same error
  try {
    for await (const message of job.output) await Promise.race([send(message), failed])
  } finally {
    job.cancel()
  }
}
