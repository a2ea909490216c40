import { SvcError } from 'svcdb/lib/errors'

/** What was read or deleted; undefined when the measurement is gone: a drop may come between the schema and that. */
export async function unlessDropped<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work
  } catch (error) {
    if (error instanceof SvcError && error.code === 'NOT_FOUND') return undefined
    throw error
  }
}
