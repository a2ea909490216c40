/**
 * One transaction on the outbox. Endpoints count what waits for them, namespaces and the whole what waits for theirs, so that no limit needs a listing;
 * what was read is kept until the end, and what changed is written once.
 */
import type { StateTransaction } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import type { EndpointRecord, WaitingEntry } from './endpoint.ts'
import { Most } from './most.ts'
import type { NewDelivery, OutboxLimits, Waiting } from './outbox.ts'

export const ENDPOINT = 'endpoint/'
export const WAITING = 'waiting/'
export const NOTE = 'note/'
const TOTAL = 'total/'
/** Of all: no namespace is called so. */
const ALL = '*'

/** Message ids that an endpoint remembers beside those of what waits, as a multiple of its queue. */
const REMEMBERED = 2

/** Deliveries that one transaction drops or removes: there may be a hundred thousand above a limit that was lowered, or of an endpoint that goes. */
const MAX_DROPS = 500

/** Deliveries of an endpoint that are read at a time to be dropped. */
const READ = 32

interface Total {
  endpoints: number
  waiting: number
  bytes: number
}

/** Keys of a delivery. */
export function waitingKey(kind: 'waiting' | 'body' | 'done', endpoint: string, seq: number): string {
  return `${kind}/${endpoint}/${String(seq).padStart(16, '0')}`
}

const messageKey = (endpoint: string, message: string): string => `message/${endpoint}/${message}`
const namespaceOf = (endpoint: string): string => endpoint.slice(0, endpoint.indexOf('/'))

export class OutboxTransaction {
  private readonly tx: StateTransaction
  private readonly limits: OutboxLimits
  private readonly now: number
  private readonly records = new Map<string, EndpointRecord | undefined>()
  private readonly totals = new Map<string, Total>()
  /** What was read of both, as text, by key. */
  private readonly before = new Map<string, string | undefined>()
  /** Of endpoints of which something was dropped: the oldest that wait, and behind which number others may. */
  private readonly oldest = new Map<string, { read: Waiting[]; start: string }>()
  /** Bytes that wait: of namespaces, and of endpoints by their namespace, of those where the most was asked for. */
  private byNamespace: Most | undefined
  private readonly byEndpoint = new Map<string, Most>()
  /** In order. */
  readonly dropped: Waiting[] = []

  constructor(tx: StateTransaction, limits: OutboxLimits, now: number) {
    this.tx = tx
    this.limits = limits
    this.now = now
  }

  /** To be changed in place. */
  async endpoint(key: string): Promise<EndpointRecord | undefined> {
    if (!this.records.has(key)) this.records.set(key, await this.read<EndpointRecord>(ENDPOINT + key))
    return this.records.get(key)
  }

  /** @throws RATE_LIMITED. */
  async create(key: string, url: string): Promise<EndpointRecord> {
    const [own, all] = [await this.total(namespaceOf(key)), await this.total(ALL)]
    const full = (what: string, limit: number, setting: string) =>
      new SvcError('RATE_LIMITED', `cannot define webhook endpoint "${key}": ${what} has ${limit} already; remove one, or raise webhooks.${setting}`)
    if (own.endpoints >= this.limits.namespaceEndpoints) throw full(`namespace "${namespaceOf(key)}"`, this.limits.namespaceEndpoints, 'namespace_endpoints')
    if (all.endpoints >= this.limits.endpoints) throw full('the server', this.limits.endpoints, 'max_endpoints')
    own.endpoints++
    all.endpoints++
    const record: EndpointRecord = { url, defined: this.now, next: this.now * 1000, waiting: 0, bytes: 0, delivered: 0, lost: 0 }
    this.records.set(key, record)
    return record
  }

  /**
   * Takes out what waits for an endpoint and what is known of it, the oldest first, and the endpoint itself with the last of it.
   * @param first false = it goes on: one that was defined anew since stays.
   * @returns whether it is gone; else more is there than one transaction removes, and it is for the next one to go on.
   */
  async remove(key: string, first: boolean): Promise<boolean> {
    const record = await this.endpoint(key)
    if (record === undefined || !(first || record.removed)) return true
    const waiting = await this.waiting(key, { limit: MAX_DROPS })
    // Bodies are not listed: there may be many megabytes.
    for (const { seq, message, bytes } of waiting) {
      for (const kind of ['waiting', 'body'] as const) this.tx.delete(waitingKey(kind, key, seq))
      this.tx.delete(messageKey(key, message))
      await this.count(key, record, -1, -bytes)
    }
    if (waiting.length >= MAX_DROPS || (await this.forgetSome(key)) >= MAX_DROPS) {
      record.removed = true
      return false
    }
    for (const total of [await this.total(namespaceOf(key)), await this.total(ALL)]) {
      total.endpoints--
      total.waiting -= record.waiting
      total.bytes -= record.bytes
    }
    this.records.set(key, undefined)
    return true
  }

  /** Ids of deliveries that are over. @returns of how many. */
  private async forgetSome(key: string): Promise<number> {
    const done = await this.tx.list<string>({ prefix: `done/${key}/`, limit: MAX_DROPS })
    for (const { key: at, value: message } of done) {
      this.tx.delete(at)
      this.tx.delete(messageKey(key, message))
    }
    return done.length
  }

  async admits(key: string, message: string, bytes: number): Promise<'queued' | 'known' | 'unrouted' | 'too_large'> {
    const record = await this.endpoint(key)
    if (record === undefined || record.removed) return 'unrouted'
    if ((await this.tx.get(messageKey(key, message))) !== undefined) return 'known'
    return bytes > Math.min(this.limits.namespaceBytes, this.limits.totalBytes) ? 'too_large' : 'queued'
  }

  /**
   * Drops the oldest until there is room: of the endpoint, of its namespace, and of the namespace for which most waits.
   * @returns false when more is to go than one transaction drops: it is for the next one to go on.
   */
  async makeRoom(key: string, bytes: number): Promise<boolean> {
    const record = (await this.endpoint(key)) as EndpointRecord
    const own = await this.total(namespaceOf(key))
    const all = await this.total(ALL)
    for (;;) {
      let from: string
      if (record.waiting >= this.limits.queueSize) from = key
      else if (own.bytes + bytes > this.limits.namespaceBytes) from = await this.fullest(namespaceOf(key))
      else if (all.bytes + bytes > this.limits.totalBytes) from = await this.fullest(await this.greediest())
      else return true
      if (this.dropped.length >= MAX_DROPS) return false
      this.dropped.push(await this.drop(from))
    }
  }

  async add({ endpoint, message, id, body }: NewDelivery, bytes: number): Promise<Waiting> {
    const record = (await this.endpoint(endpoint)) as EndpointRecord
    const seq = record.next++
    const entry: WaitingEntry = { message, id, at: this.now, bytes }
    this.tx.put(waitingKey('waiting', endpoint, seq), entry)
    this.tx.put(waitingKey('body', endpoint, seq), body)
    this.tx.put(messageKey(endpoint, message), seq)
    await this.forget(endpoint, seq - this.limits.queueSize * REMEMBERED)
    await this.count(endpoint, record, 1, bytes)
    return { ...entry, endpoint, seq }
  }

  /** Takes a delivery out; its message stays known for a while. @returns undefined when it is gone. */
  async take(endpoint: string, seq: number): Promise<WaitingEntry | undefined> {
    const record = await this.endpoint(endpoint)
    const entry = await this.tx.get<WaitingEntry>(waitingKey('waiting', endpoint, seq))
    if (record === undefined || entry === undefined) return undefined
    await this.end(endpoint, record, seq, entry)
    return entry
  }

  /** Writes what changed. */
  commit(): void {
    for (const [key, record] of this.records) this.write(ENDPOINT + key, record)
    for (const [name, total] of this.totals) this.write(TOTAL + name, total.endpoints === 0 ? undefined : total)
  }

  private async read<T>(key: string): Promise<T | undefined> {
    const value = await this.tx.get<T>(key)
    this.before.set(key, JSON.stringify(value))
    return value
  }

  private write(key: string, value: object | undefined): void {
    if (JSON.stringify(value) === this.before.get(key)) return
    if (value === undefined) this.tx.delete(key)
    else this.tx.put(key, value)
  }

  private async end(endpoint: string, record: EndpointRecord, seq: number, entry: WaitingEntry): Promise<void> {
    this.tx.delete(waitingKey('waiting', endpoint, seq))
    this.tx.delete(waitingKey('body', endpoint, seq))
    if (record.next - seq > this.limits.queueSize * REMEMBERED) this.tx.delete(messageKey(endpoint, entry.message))
    else this.tx.put(waitingKey('done', endpoint, seq), entry.message)
    await this.count(endpoint, record, -1, -entry.bytes)
  }

  private async drop(endpoint: string): Promise<Waiting> {
    const record = (await this.endpoint(endpoint)) as EndpointRecord
    const oldest = await this.oldestOf(endpoint)
    if (oldest === undefined) throw new Error(`cannot make room in the outbox: webhook endpoint "${endpoint}" counts what is not there`)
    await this.end(endpoint, record, oldest.seq, oldest)
    record.lost++
    return oldest
  }

  /** Each once: whoever asks drops it. */
  private async oldestOf(endpoint: string): Promise<Waiting | undefined> {
    const known = this.oldest.get(endpoint)
    if (known !== undefined && known.read.length > 0) return known.read.shift()
    const start = known?.start ?? waitingKey('waiting', endpoint, 0)
    const read = await this.waiting(endpoint, { start, limit: READ })
    const last = read.at(-1)
    this.oldest.set(endpoint, { read, start: last === undefined ? start : waitingKey('waiting', endpoint, last.seq + 1) })
    return read.shift()
  }

  private async waiting(endpoint: string, part: { start?: string; limit?: number } = {}): Promise<Waiting[]> {
    const prefix = `${WAITING}${endpoint}/`
    const entries = await this.tx.list<WaitingEntry>({ prefix, ...part })
    return entries.map(({ key, value }) => ({ ...value, endpoint, seq: Number(key.slice(prefix.length)) }))
  }

  /** The endpoint of a namespace for which most bytes wait. They are listed once. */
  private async fullest(namespace: string): Promise<string> {
    const most = this.byEndpoint.get(namespace) ?? new Most(await this.endpointBytes(namespace))
    this.byEndpoint.set(namespace, most)
    return most.get() ?? ''
  }

  private async endpointBytes(namespace: string): Promise<Map<string, number>> {
    const entries = await this.tx.list<EndpointRecord>({ prefix: `${ENDPOINT}${namespace}/` })
    const bytes = new Map(entries.map(({ key, value }) => [key.slice(ENDPOINT.length), value.bytes]))
    for (const [key, record] of this.records) if (namespaceOf(key) === namespace) bytes.set(key, record?.bytes ?? 0)
    return bytes
  }

  /** The namespace for which most bytes wait. They are listed once. */
  private async greediest(): Promise<string> {
    this.byNamespace ??= new Most(await this.namespaceBytes())
    return this.byNamespace.get() ?? ''
  }

  private async namespaceBytes(): Promise<Map<string, number>> {
    const entries = await this.tx.list<Total>({ prefix: TOTAL })
    const bytes = new Map(entries.map(({ key, value }) => [key.slice(TOTAL.length), value.bytes]))
    for (const [name, total] of this.totals) bytes.set(name, total.bytes)
    bytes.delete(ALL)
    return bytes
  }

  /** The id of an old delivery, if that is over. */
  private async forget(endpoint: string, seq: number): Promise<void> {
    const key = waitingKey('done', endpoint, Math.max(0, seq))
    const message = await this.tx.get<string>(key)
    if (message === undefined) return
    this.tx.delete(key)
    this.tx.delete(messageKey(endpoint, message))
  }

  private async count(endpoint: string, record: EndpointRecord, deliveries: number, bytes: number): Promise<void> {
    const namespace = namespaceOf(endpoint)
    const own = await this.total(namespace)
    for (const at of [record, own, await this.total(ALL)]) {
      at.waiting += deliveries
      at.bytes += bytes
    }
    this.byEndpoint.get(namespace)?.set(endpoint, record.bytes)
    this.byNamespace?.set(namespace, own.bytes)
  }

  private async total(name: string): Promise<Total> {
    const known = this.totals.get(name) ?? (await this.read<Total>(TOTAL + name)) ?? { endpoints: 0, waiting: 0, bytes: 0 }
    this.totals.set(name, known)
    return known
  }
}
