/**
 * How many questions of callers may have a connection at once: all but a quarter, so that writes and what the node asks for itself find one, however slow the
 * questions are. A namespace leaves a quarter of these to the others. Who finds no place waits, in the order of the calls.
 */
interface Waiting {
  namespace: string
  start(): void
}

export class Questions {
  private readonly places: number
  private readonly share: number
  private active = 0
  /** Of namespaces that are kept apart. */
  private readonly activeOf = new Map<string, number>()
  private readonly waiting = new Set<Waiting>()

  /** @param connections of all statements. */
  constructor(connections: number) {
    this.places = Math.max(1, Math.floor((connections * 3) / 4))
    this.share = Math.ceil((this.places * 3) / 4)
  }

  /**
   * @param namespace empty = not kept apart. @returns gives the place back; so does the signal.
   * @throws what the signal was aborted with, before there was a place. */
  async enter(namespace: string, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted()
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const own: Waiting = { namespace, start: resolve }
    let state: 'waits' | 'has' | 'left' = 'waits'
    const leave = (): void => {
      signal.removeEventListener('abort', leave)
      if (state === 'has') this.count(namespace, -1)
      else if (this.waiting.delete(own)) reject(signal.reason)
      state = 'left'
      this.startNext()
    }
    signal.addEventListener('abort', leave)
    own.start = () => {
      state = 'has'
      this.count(namespace, 1)
      resolve()
    }
    this.waiting.add(own)
    this.startNext()
    await promise
    return leave
  }

  private startNext(): void {
    for (const one of this.waiting) {
      if (this.active >= this.places) return
      if ((this.activeOf.get(one.namespace) ?? 0) >= this.share) continue
      this.waiting.delete(one)
      one.start()
    }
  }

  private count(namespace: string, by: 1 | -1): void {
    this.active += by
    if (namespace === '') return
    const count = (this.activeOf.get(namespace) ?? 0) + by
    if (count > 0) this.activeOf.set(namespace, count)
    else this.activeOf.delete(namespace)
  }
}
