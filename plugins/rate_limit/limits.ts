/** The buckets, layer by layer, and what one request takes out of them. Times are milliseconds of a clock that never goes back. */
import { createHash } from 'node:crypto'
import { BoundedTable } from './bounded-table.ts'
import { type Bucket, fullBucket, owed, type Rate, rateOf, remaining, take, waitOf } from './gcra.ts'

export const LAYERS = ['address', 'global', 'namespace', 'principal'] as const
export type Layer = (typeof LAYERS)[number]

/** A bucket that has been full for so long is forgotten; nobody can tell it from a new one. */
const IDLE_MS = 300_000
/** Longer names are kept as their hash. */
const MAX_KEY_LENGTH = 256

export interface LimitOptions {
  address: Rate | undefined
  global: Rate | undefined
  principal: Rate | undefined
  /** Of a namespace; asked for every request, as it may change. */
  namespace(name: string): Rate | undefined
  /** Of each layer. */
  maxTracked: number
}

export interface Refusal {
  layer: Layer
  rate: Rate
  remaining: number
  /** Until a request is allowed. */
  waitMs: number
  /** Until all that may come at once is allowed. */
  fullMs: number
}

export class Limits {
  private readonly options: LimitOptions
  private readonly global: Bucket = fullBucket()
  private readonly addresses: BoundedTable<Bucket>
  private readonly namespaces: BoundedTable<Bucket>
  private readonly principals: BoundedTable<Bucket>

  constructor(options: LimitOptions) {
    this.options = options
    this.addresses = new BoundedTable(options.maxTracked)
    this.namespaces = new BoundedTable(options.maxTracked)
    this.principals = new BoundedTable(options.maxTracked)
  }

  /** Takes one request of both layers, or of none. */
  arrival(caller: string, now: number): Refusal | undefined {
    const { address, global } = this.options
    const own = address === undefined ? undefined : bucketOf(this.addresses, caller)
    if (own !== undefined && address !== undefined) {
      const wait = waitOf(own, address, now)
      if (wait > 0) return refusal('address', own, address, wait, now)
    }
    if (global !== undefined) {
      const wait = waitOf(this.global, global, now)
      if (wait > 0) return refusal('global', this.global, global, wait, now)
      take(this.global, global, now)
    }
    if (own !== undefined && address !== undefined) take(own, address, now)
    return undefined
  }

  /** Takes one request of both layers, or of none: what a principal is refused does not count against its namespace. @param principal undefined = anonymous. */
  admitted(namespace: string, principal: string | undefined, now: number): Refusal | undefined {
    const ofNamespace = this.options.namespace(namespace)
    const shared = ofNamespace === undefined ? undefined : bucketOf(this.namespaces, namespace)
    if (shared !== undefined && ofNamespace !== undefined) {
      const wait = waitOf(shared, ofNamespace, now)
      if (wait > 0) return refusal('namespace', shared, ofNamespace, wait, now)
    }
    const ofPrincipal = this.options.principal
    if (principal !== undefined && ofPrincipal !== undefined) {
      const own = bucketOf(this.principals, keyOf(principal))
      const wait = waitOf(own, ofPrincipal, now)
      if (wait > 0) return refusal('principal', own, ofPrincipal, wait, now)
      take(own, ofPrincipal, now)
    }
    if (shared !== undefined && ofNamespace !== undefined) take(shared, ofNamespace, now)
    return undefined
  }

  /** In parts. */
  *sweep(now: number): Generator<void> {
    for (const table of [this.addresses, this.namespaces, this.principals]) yield* table.sweep(({ at, owed }) => at + owed + IDLE_MS <= now)
  }

  tracked(): Record<Exclude<Layer, 'global'>, number> {
    return { address: this.addresses.size, namespace: this.namespaces.size, principal: this.principals.size }
  }
}

function bucketOf(table: BoundedTable<Bucket>, key: string): Bucket {
  let bucket = table.get(key)
  if (bucket === undefined) table.set(key, (bucket = fullBucket()))
  return bucket
}

function keyOf(principal: string): string {
  return principal.length <= MAX_KEY_LENGTH ? principal : createHash('sha256').update(principal).digest('base64')
}

function refusal(layer: Layer, bucket: Bucket, rate: Rate, waitMs: number, now: number): Refusal {
  return { layer, rate, remaining: remaining(bucket, rate, now), waitMs, fullMs: owed(bucket, now) }
}

interface NamespaceRates {
  /** By name, of those that the config names; undefined there = no limit. */
  named: ReadonlyMap<string, Rate | undefined>
  others: Rate | undefined
  /** What the namespace's own quota says; 0 or undefined = nothing. */
  quota(name: string): { max_request_rps: number; max_request_burst: number } | undefined
}

/** A namespace's quota counts before the config. */
export function namespaceRate({ named, others, quota }: NamespaceRates): (name: string) => Rate | undefined {
  return (name) => {
    const own = quota(name)
    if (own !== undefined && own.max_request_rps > 0) return rateOf(own.max_request_rps, own.max_request_burst)
    return named.has(name) ? named.get(name) : others
  }
}
