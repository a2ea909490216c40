/** What is being created, by namespace: where one is deleted meanwhile, it ends with it, for it was made out of what was there before. */
import { NAMESPACES, type NamespaceDirectory, type Svc } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'

interface Creation {
  abort: AbortController
  done: Promise<unknown>
}

const deletedMeanwhile = (): SvcError => new SvcError('NOT_FOUND', 'the namespace was deleted meanwhile')

export class Creations {
  private readonly svc: Svc
  private readonly byNamespace = new Map<string, Set<Creation>>()

  constructor(svc: Svc) {
    this.svc = svc
  }

  /** @param create has to call `requireThere` behind everything that it waits for, and then to be listed at once. */
  async run<T>(namespace: string, signal: AbortSignal, create: (signal: AbortSignal, requireThere: () => void) => Promise<T>): Promise<T> {
    const abort = new AbortController()
    const ending = AbortSignal.any([signal, abort.signal])
    const since = this.createdAt(namespace)
    const done = create(ending, () => {
      ending.throwIfAborted()
      // Of a deletion on another node only the directory knows.
      if (since !== undefined && this.createdAt(namespace) !== since) throw deletedMeanwhile()
    })
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

  private createdAt(namespace: string): number | undefined {
    return this.svc.find<NamespaceDirectory>(NAMESPACES)?.get(namespace)?.createdAt
  }

  /** Resolves when none goes on that was under way. */
  async end(namespace: string): Promise<void> {
    const own = [...(this.byNamespace.get(namespace) ?? [])]
    for (const { abort } of own) abort.abort(deletedMeanwhile())
    await Promise.allSettled(own.map(({ done }) => done))
  }
}
