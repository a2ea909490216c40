import { hash } from 'node:crypto'
import { FifoMap } from '../lib/cache/index.ts'
import { SvcError } from '../lib/errors/index.ts'

/** Of the keys of the fullest namespace, what gives way before it is looked for again. */
const GIVES_WAY = 4
/** Expired keys that one claim removes of a namespace, a million at a time take a second; and namespaces that are looked at for want of room. */
const EXPIRE = 16
/** Characters of a longer key are not kept. */
const LONG = 64

/**
 * Idempotency keys seen within a window: bounded, and no namespace takes the room of others. A key takes some 150 bytes at most, and no claim does more than a few keys'
 * work: what has expired goes a little with each, of the caller's namespace and of another in turn.
 */
export class IdempotencyKeys {
  private readonly windowMs: number
  private readonly capacity: number
  private readonly now: () => number
  private readonly waitMs: number
  /** Of each its keys, and when each was claimed. */
  private readonly namespaces = new Map<string, FifoMap<string, number>>()
  private count = 0
  private turn: Iterator<string> = this.namespaces.keys()
  /** The namespace that others find room in, and how many keys it gives before it is looked for again. */
  private giving = { namespace: '', keys: 0 }
  /** What goes on under a key, from its claim on: resolves to whether it was stored. A key that is forgotten meanwhile is waited for all the same. */
  private readonly underWay = new Map<string, PromiseWithResolvers<boolean>>()

  /**
   * @param now milliseconds that never go back.
   * @param waitMs for which a call waits for what is under way with its key; 0 = for as long as it takes.
   */
  constructor(windowMs: number, capacity: number, now: () => number, waitMs = 0) {
    this.waitMs = waitMs
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
    const kept = keptOf(key)
    this.expire(namespace, now)
    this.expireNext(now)
    const at = this.namespaces.get(namespace)?.get(kept)
    if (at !== undefined && now - at < this.windowMs) return false
    if (at !== undefined) this.remove(namespace, kept)
    if (this.count >= this.capacity) this.makeRoom(namespace, now)
    let own = this.namespaces.get(namespace)
    if (own === undefined) this.namespaces.set(namespace, (own = new FifoMap()))
    own.set(kept, now)
    this.count++
    return true
  }

  release(key: string): void {
    this.remove(namespaceOf(key), keptOf(key))
  }

  /**
   * Claims a key, when what goes on under it is over: only what is stored may be left out.
   * @param waits called before each wait. @returns false when it was stored within the window. Whoever has it says what became of it by `end`.
   * @throws WRITE_TIMEOUT when what is under way takes too long.
   */
  async enter(key: string, waits?: () => void): Promise<boolean> {
    for (let before = this.underWay.get(key); before !== undefined; before = this.underWay.get(key)) {
      waits?.()
      if (await within(before.promise, this.waitMs, this.tooLong)) return false
    }
    if (!this.claim(key)) return false
    // In the same turn: another may ask before the caller goes on.
    this.underWay.set(key, Promise.withResolvers())
    return true
  }

  private readonly tooLong = (): SvcError =>
    new SvcError(
      'WRITE_TIMEOUT',
      `a write with the same key has been under way for more than ${this.waitMs / 1000} s; send it again with that key, it is stored once`,
    )

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

  private remove(namespace: string, kept: string): void {
    const own = this.namespaces.get(namespace)
    if (!own?.delete(kept)) return
    this.count--
    if (own.size === 0) this.namespaces.delete(namespace)
  }

  private expire(namespace: string, now: number): void {
    const own = this.namespaces.get(namespace)
    for (let left = EXPIRE; left > 0; left--) {
      const oldest = own?.oldest()
      if (oldest === undefined || now - (own?.get(oldest) as number) < this.windowMs) return
      this.remove(namespace, oldest)
    }
  }

  private expireNext(now: number): void {
    let next = this.turn.next()
    if (next.done) {
      this.turn = this.namespaces.keys()
      next = this.turn.next()
    }
    if (!next.done) this.expire(next.value, now)
  }

  /** What has expired goes first. Then a namespace that has its share gives way to itself, and others find room where most is: the oldest key goes. */
  private makeRoom(wanting: string, now: number): void {
    for (let looks = EXPIRE; looks > 0 && this.count >= this.capacity; looks--) this.expireNext(now)
    if (this.count < this.capacity) return
    const has = (namespace: string): number => this.namespaces.get(namespace)?.size ?? 0
    let from = wanting
    if (has(wanting) * this.namespaces.size < this.count) {
      if (this.giving.keys === 0 || has(this.giving.namespace) === 0) this.giving = this.fullest()
      this.giving.keys--
      from = this.giving.namespace
    }
    const oldest = this.namespaces.get(from)?.oldest()
    if (oldest !== undefined) this.remove(from, oldest)
  }

  private fullest(): { namespace: string; keys: number } {
    let [namespace, most] = ['', 0]
    for (const [each, { size }] of this.namespaces) if (size > most) [namespace, most] = [each, size]
    return { namespace, keys: Math.ceil(most / GIVES_WAY) }
  }
}

/** @param limitMs 0 = for as long as it takes. @throws late when the time is over. The work goes on. */
export function within<T>(work: Promise<T>, limitMs: number, late: () => SvcError): Promise<T> {
  if (limitMs <= 0) return work
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(late()), limitMs)
    work.then(resolve, reject).finally(() => clearTimeout(timer))
  })
}

/** Of a key that was made otherwise it is the empty one. */
const namespaceOf = (key: string): string => key.slice(0, Math.max(0, key.indexOf('\u0000')))

/** What is kept of a key: of a long one a hash, which nobody finds a second key for. */
const keptOf = (key: string): string => (key.length <= LONG ? key : hash('sha256', key, 'base64url'))
