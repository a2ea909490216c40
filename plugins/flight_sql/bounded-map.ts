/**
 * Values that clients can come back to by a random name: bounded in number and weight, each with a lifetime that begins anew when it is used.
 * The one used longest ago goes first when there is no room. A Map keeps the order of use.
 */
import { randomBytes } from 'node:crypto'

export interface BoundedMapOptions {
  maxEntries: number
  maxWeight: number
  lifetimeMs: number
}

interface Entry<T> {
  value: T
  weight: number
  expires: number
}

export class BoundedMap<T> {
  private readonly entries = new Map<string, Entry<T>>()
  private readonly options: BoundedMapOptions
  private readonly now: () => number
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

  /** @returns its name; undefined when it is heavier than everything together may be. */
  add(value: T, weight: number): string | undefined {
    const name = randomName()
    return this.put(name, value, weight) ? name : undefined
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

  /** False when it is heavier than everything together may be: the old value is gone then. */
  put(name: string, value: T, weight: number): boolean {
    this.delete(name)
    const { maxEntries, maxWeight, lifetimeMs } = this.options
    if (weight > maxWeight) return false
    this.expire()
    for (const oldest of this.entries.keys()) {
      if (this.entries.size < maxEntries && this.weight + weight <= maxWeight) break
      this.delete(oldest)
    }
    this.entries.set(name, { value, weight, expires: this.now() + lifetimeMs })
    this.weight += weight
    return true
  }

  delete(name: string): boolean {
    const entry = this.entries.get(name)
    if (entry === undefined) return false
    this.weight -= entry.weight
    return this.entries.delete(name)
  }

  /** Those used longest ago expire first. */
  private expire(): void {
    const now = this.now()
    for (const [name, entry] of this.entries) {
      if (entry.expires > now) break
      this.delete(name)
    }
  }
}

/** Not to be guessed: whoever knows it may use what it stands for. */
export function randomName(): string {
  return randomBytes(24).toString('base64url')
}
