import { SvcError } from 'svcdb/lib/errors'

/** What was read; undefined when the measurement is gone: a drop may come between the schema and a read. */
export async function unlessDropped<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading
  } catch (error) {
    if (error instanceof SvcError && error.code === 'NOT_FOUND') return undefined
    throw error
  }
}
