/** What is being created, by namespace: where one is deleted meanwhile, it ends with it, for it was made out of what was there before. */
import { SvcError } from 'svcdb/lib/errors'

interface Creation {
  abort: AbortController
  done: Promise<unknown>
}

export class Creations {
  private readonly byNamespace = new Map<string, Set<Creation>>()

  /** @param create has to look at its signal behind everything that it waits for, and then to be listed at once. */
  async run<T>(namespace: string, signal: AbortSignal, create: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const abort = new AbortController()
    const done = create(AbortSignal.any([signal, abort.signal]))
    const creation = { abort, done }
    const own = this.byNamespace.get(namespace) ?? new Set()
    this.byNamespace.set(namespace, own.add(creation))
    try {
      return await done
    } catch (error) {
      // A query that is under way says only that it was cancelled.
      throw abort.signal.aborted ? abort.signal.reason : error
    } finally {
      own.delete(creation)
      if (own.size === 0) this.byNamespace.delete(namespace)
    }
  }

  /** Resolves when none goes on that was under way. */
  async end(namespace: string): Promise<void> {
    const own = [...(this.byNamespace.get(namespace) ?? [])]
    for (const { abort } of own) abort.abort(new SvcError('NOT_FOUND', 'the namespace was deleted meanwhile'))
    await Promise.allSettled(own.map(({ done }) => done))
  }
}
