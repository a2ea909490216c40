/** Of what gives way at once: looking for the fullest namespace is seldom then. */
const GIVES_WAY = 4

/** Idempotency keys seen within a window: bounded, and no namespace takes the room of others. */
export class IdempotencyKeys {
  private readonly windowMs: number
  private readonly capacity: number
  private readonly now: () => number
  /** Of each namespace: key to the time it was claimed; a Map keeps the order of claims, so the oldest come first. */
  private readonly namespaces = new Map<string, Map<string, number>>()
  private count = 0
  /** What goes on under a key, from its claim on: resolves to whether it was stored. A key that is forgotten meanwhile is waited for all the same. */
  private readonly underWay = new Map<string, PromiseWithResolvers<boolean>>()

  /** @param now milliseconds that never go back. */
  constructor(windowMs: number, capacity: number, now: () => number) {
    this.windowMs = windowMs
    this.capacity = capacity
    this.now = now
  }

  /** @returns the key as the other calls take it: keys of different callers never meet. */
  static of({ namespace, principal }: { namespace: string; principal: string }, given: string): string {
    return `${namespace}\u0000${principal}\u0000${given}`
  }

  get size(): number {
    return this.count
  }

  /** False when the key was claimed within the window and not released since. */
  claim(key: string): boolean {
    const now = this.now()
    const namespace = namespaceOf(key)
    this.expire(namespace, now)
    if (this.namespaces.get(namespace)?.has(key)) return false
    if (this.count >= this.capacity) this.makeRoom(namespace, now)
    let own = this.namespaces.get(namespace)
    if (own === undefined) this.namespaces.set(namespace, (own = new Map()))
    own.set(key, now)
    this.count++
    return true
  }

  release(key: string): void {
    const namespace = namespaceOf(key)
    const own = this.namespaces.get(namespace)
    if (own?.delete(key)) this.removed(namespace, own)
  }

  /**
   * Claims a key, when what goes on under it is over: only what is stored may be left out.
   * @param waits called before each wait. @returns false when it was stored within the window. Whoever has it says what became of it by `end`.
   */
  async enter(key: string, waits?: () => void): Promise<boolean> {
    for (let before = this.underWay.get(key); before !== undefined; before = this.underWay.get(key)) {
      waits?.()
      if (await before.promise) return false
    }
    if (!this.claim(key)) return false
    // In the same turn: another may ask before the caller goes on.
    this.underWay.set(key, Promise.withResolvers())
    return true
  }

  /** Call it once for each key that was entered. */
  end(key: string, stored: boolean): void {
    const own = this.underWay.get(key)
    this.underWay.delete(key)
    if (!stored) this.release(key)
    own?.resolve(stored)
  }

  /** Frees all keys of a namespace. */
  forget(namespace: string): void {
    this.count -= this.namespaces.get(namespace)?.size ?? 0
    this.namespaces.delete(namespace)
  }

  private removed(namespace: string, own: ReadonlyMap<string, number>): void {
    this.count--
    if (own.size === 0) this.namespaces.delete(namespace)
  }

  private expire(namespace: string, now: number): void {
    const own = this.namespaces.get(namespace)
    if (own === undefined) return
    for (const [key, at] of own) {
      if (now - at < this.windowMs) return
      own.delete(key)
      this.removed(namespace, own)
    }
  }

  /** A namespace that has its share gives way to itself, and others find room where most is. */
  private makeRoom(wanting: string, now: number): void {
    for (const namespace of this.namespaces.keys()) this.expire(namespace, now)
    if (this.count < this.capacity) return
    let most = wanting
    if ((this.namespaces.get(wanting)?.size ?? 0) * this.namespaces.size < this.count)
      for (const [namespace, { size }] of this.namespaces) if (size > (this.namespaces.get(most)?.size ?? 0)) most = namespace
    const own = this.namespaces.get(most) as Map<string, number>
    let left = Math.ceil(own.size / GIVES_WAY)
    for (const key of own.keys()) {
      if (left-- === 0) return
      own.delete(key)
      this.removed(most, own)
    }
  }
}

/** Of a key that was made otherwise it is the empty one. */
const namespaceOf = (key: string): string => key.slice(0, Math.max(0, key.indexOf('\u0000')))
