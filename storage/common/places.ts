/**
 * Places for what runs at once, such as questions or processes. A namespace has a share of them, so that it leaves some to the others. Who finds none waits: namespaces
 * take turns, and within one the order of the calls holds, so that one that asks very often does not have the others wait for all that it has asked.
 */
import { NamespaceCounts } from './namespace-counts.ts'

interface Asked {
  namespace: string
  start(): void
}

export class Places {
  private readonly most: number
  private readonly share: number
  private readonly active = new NamespaceCounts()
  /** Namespaces in the order of their turns. */
  private readonly waiting = new Map<string, Set<Asked>>()
  private waits = 0

  /** @param share what one namespace may have. */
  constructor(most: number, share: number) {
    this.most = most
    this.share = Math.max(1, share)
  }

  /**
   * @param namespace empty = not kept apart. @returns gives the place back; so does the signal.
   * @throws what the signal was aborted with, before there was a place. */
  async enter(namespace: string, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted()
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    let state: 'waits' | 'has' | 'left' = 'waits'
    const own: Asked = {
      namespace,
      start: () => {
        state = 'has'
        this.active.add(namespace, 1)
        resolve()
      },
    }
    const leave = (): void => {
      signal.removeEventListener('abort', leave)
      if (state === 'has') this.left(namespace)
      else if (this.remove(own)) reject(signal.reason)
      state = 'left'
      this.startNext()
    }
    signal.addEventListener('abort', leave)
    const those = this.waiting.get(namespace)
    if (those === undefined) this.waiting.set(namespace, new Set([own]))
    else those.add(own)
    this.waits++
    this.startNext()
    await promise
    return leave
  }

  get taken(): number {
    return this.active.all
  }

  /** Those that wait for a place. */
  get waitingCount(): number {
    return this.waits
  }

  /** Who has had a place is behind the others that wait. */
  private left(namespace: string): void {
    this.active.add(namespace, -1)
    const those = this.waiting.get(namespace)
    if (those === undefined) return
    this.waiting.delete(namespace)
    this.waiting.set(namespace, those)
  }

  private remove(one: Asked): boolean {
    const those = this.waiting.get(one.namespace)
    if (those?.delete(one) !== true) return false
    this.waits--
    if (those.size === 0) this.waiting.delete(one.namespace)
    return true
  }

  private startNext(): void {
    for (const [namespace, those] of this.waiting) {
      if (this.active.all >= this.most) return
      if (this.active.of(namespace) >= this.share) continue
      const [one] = those
      this.waiting.delete(namespace)
      those.delete(one)
      this.waits--
      // Behind the others, and met again by this loop.
      if (those.size > 0) this.waiting.set(namespace, those)
      one.start()
    }
  }
}
