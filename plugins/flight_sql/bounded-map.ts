/**
 * Values that clients can come back to by a random name: bounded in number and weight, each with a lifetime that begins anew when it is used.
 * The one used longest ago goes first when there is no room, but none of an owner that has no more than its share: nobody lives on what others leave.
 * A Map keeps the order of use.
 */
import { randomBytes } from 'node:crypto'
import { FifoMap } from 'svcdb/lib/cache'

interface BoundedMapOptions {
  maxEntries: number
  maxWeight: number
  lifetimeMs: number
}

interface Entry<T> {
  value: T
  owner: string
  weight: number
  expires: number
}

export class BoundedMap<T> {
  private readonly entries = new FifoMap<string, Entry<T>>()
  private readonly options: BoundedMapOptions
  private readonly now: () => number
  private readonly owners = new Map<string, { entries: number; weight: number }>()
  private weight = 0

  /** @param now milliseconds that never go back. */
  constructor(options: BoundedMapOptions, now: () => number) {
    this.options = options
    this.now = now
  }

  get size(): number {
    this.expire()
    return this.entries.size
  }

  /** @returns its name; undefined when there is no room for it. */
  add(value: T, weight: number, owner = ''): string | undefined {
    const name = randomName()
    return this.put(name, value, weight, owner) ? name : undefined
  }

  get(name: string): T | undefined {
    this.expire()
    const entry = this.entries.get(name)
    if (entry === undefined) return undefined
    entry.expires = this.now() + this.options.lifetimeMs
    this.entries.delete(name)
    this.entries.set(name, entry)
    return entry.value
  }

  /** False when it is heavier than everything together may be, or than what others leave: the old value is gone then. */
  put(name: string, value: T, weight: number, owner = ''): boolean {
    this.delete(name)
    const { maxEntries, maxWeight, lifetimeMs } = this.options
    if (weight > maxWeight) return false
    this.expire()
    this.count(owner, 1, weight)
    while (this.entries.size >= maxEntries || this.weight > maxWeight) {
      const oldest = this.removable()
      if (oldest === undefined) {
        this.count(owner, -1, -weight)
        return false
      }
      this.delete(oldest)
    }
    this.entries.set(name, { value, owner, weight, expires: this.now() + lifetimeMs })
    return true
  }

  /** The one used longest ago of those whose owner has more than its share of what there is too little of. */
  private removable(): string | undefined {
    const { maxEntries, maxWeight } = this.options
    const tooMany = this.entries.size >= maxEntries
    const share = (tooMany ? maxEntries : maxWeight) / this.owners.size
    for (const [name, { owner }] of this.entries) {
      const has = this.owners.get(owner)
      if (has !== undefined && (tooMany ? has.entries : has.weight) > share) return name
    }
    return undefined
  }

  private count(owner: string, entries: number, weight: number): void {
    this.weight += weight
    let has = this.owners.get(owner)
    if (has === undefined) this.owners.set(owner, (has = { entries: 0, weight: 0 }))
    has.entries += entries
    has.weight += weight
    if (has.entries === 0) this.owners.delete(owner)
  }

  /** Forgets what an owner has. */
  forget(owner: string): void {
    for (const [name, entry] of this.entries) if (entry.owner === owner) this.delete(name)
  }

  delete(name: string): boolean {
    const entry = this.entries.get(name)
    if (entry === undefined) return false
    this.count(entry.owner, -1, -entry.weight)
    return this.entries.delete(name)
  }

  /** Those used longest ago expire first. */
  private expire(): void {
    const now = this.now()
    for (let name = this.entries.oldest(); name !== undefined; name = this.entries.oldest()) {
      if ((this.entries.get(name) as Entry<T>).expires > now) break
      this.delete(name)
    }
  }
}

/** Not to be guessed: whoever knows it may use what it stands for. */
export function randomName(): string {
  return randomBytes(24).toString('base64url')
}
