/** Turns of an engine thread's statements at having an engine process, asked of the main thread: it knows what all threads have. */
import type { FromWorker } from '../threads/messages.ts'

export class ProcessTurns {
  private readonly post: (message: FromWorker) => void
  private readonly waiting = new Map<number, () => void>()
  private next = 0

  constructor(post: (message: FromWorker) => void) {
    this.post = post
  }

  /** @returns gives the turn back. @throws what the signal says, before it was its turn. */
  async enter(namespace: string, signal: AbortSignal | undefined): Promise<() => void> {
    signal?.throwIfAborted()
    const turn = this.next++
    const leave = (): void => this.post({ kind: 'process-left', turn })
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const abort = (): void => {
      leave()
      reject(signal?.reason)
    }
    signal?.addEventListener('abort', abort, { once: true })
    this.waiting.set(turn, resolve)
    this.post({ kind: 'process-wanted', turn, namespace })
    try {
      await promise
    } finally {
      this.waiting.delete(turn)
      signal?.removeEventListener('abort', abort)
    }
    return leave
  }

  granted(turn: number): void {
    this.waiting.get(turn)?.()
  }
}
