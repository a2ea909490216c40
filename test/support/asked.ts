/** What a query of a plugin asks the storage for. */
import type { Job, JobIo, Reader, ScanRequest } from 'svcdb'

/** The scans that a job asks of a reader without rows. */
export async function scansOf<A, R>(job: Job<A, R>, args: A): Promise<ScanRequest[]> {
  const asked: ScanRequest[] = []
  const scan = async function* (request: ScanRequest): AsyncGenerator<never> {
    asked.push(request)
    yield* []
  }
  await job({ scan } as unknown as Reader, args, { emit: async () => {}, signal: new AbortController().signal } as unknown as JobIo)
  return asked
}
