/**
 * What waits to be delivered, in the state store (docs/formats/webhooks.md): a delivery is there until it was accepted, given up or dropped, and its message
 * id for some time longer. Every change is one transaction, so several processes may queue at one time; one of them delivers.
 */
import type { ScheduledRun, StateStore, StateTransaction, WebhookRef } from 'svcdb'
import { nextTurn } from 'svcdb/lib/event-loop'
import { ENTRY_BYTES, type EndpointRecord, keyOf, refOf, type WaitingEntry } from './endpoint.ts'
import { ENDPOINT, NOTE, OutboxTransaction, WAITING, waitingKey } from './outbox-transaction.ts'

export interface OutboxLimits {
  queueSize: number
  namespaceBytes: number
  totalBytes: number
  namespaceEndpoints: number
  endpoints: number
}

export interface NewDelivery {
  endpoint: string
  message: string
  id: string
  body: string
}

export interface Waiting extends WaitingEntry {
  endpoint: string
  seq: number
}

/** What one transaction has done. */
export interface Queued {
  /** Of those that came first. */
  answers: ('queued' | 'known' | 'unrouted' | 'too_large')[]
  added: Waiting[]
  dropped: Waiting[]
}

/** One that is over: it leaves the queue. */
export interface Finished {
  endpoint: string
  seq: number
  result: 'delivered' | 'expired'
}

export interface Endpoint {
  key: string
  ref: WebhookRef
  record: EndpointRecord
}

/** Endpoints, or deliveries of one, that are read at a time. */
const SLICE = 500

/** Deliveries of one transaction, and about the bytes of their bodies. */
const CHUNK = 500
const CHUNK_BYTES = 4 * 2 ** 20

export class Outbox {
  private readonly state: StateStore
  private readonly limits: OutboxLimits
  private readonly now: () => number
  /** Tells the process that delivers what others have changed. */
  private readonly notes: (() => string) | undefined
  /** Transactions of this process come one after the other: they meet in the same totals. */
  private last: Promise<unknown> = Promise.resolve()

  /** @param notes makes keys for notes to the process that delivers, where that may be another. */
  constructor(state: StateStore, limits: OutboxLimits, now: () => number, notes?: () => string) {
    this.state = state
    this.limits = limits
    this.now = now
    this.notes = notes
  }

  /** In the order of their keys. @param namespace undefined = all. */
  async endpoints(namespace?: string): Promise<Endpoint[]> {
    const all: Endpoint[] = []
    for await (const some of this.slices(namespace)) all.push(...some)
    return all
  }

  /** The same, some hundred at a time, each in a turn of the event loop. */
  async *slices(namespace?: string): AsyncGenerator<Endpoint[]> {
    const prefix = namespace === undefined ? ENDPOINT : `${ENDPOINT}${namespace}/`
    for (let start = prefix; ; await nextTurn()) {
      const entries = await this.state.list<EndpointRecord>({ prefix, start, limit: SLICE })
      yield entries.map(({ key, value }) => endpointOf(key.slice(ENDPOINT.length), value))
      if (entries.length < SLICE) return
      start = `${entries[SLICE - 1].key}\0`
    }
  }

  async endpoint(key: string): Promise<Endpoint | undefined> {
    const record = await this.state.get<EndpointRecord>(ENDPOINT + key)
    return record === undefined ? undefined : endpointOf(key, record)
  }

  /** Of one endpoint, the oldest first; of many some hundred at a time, each in a turn of the event loop. @param limit undefined = all. */
  async waiting(endpoint: string, limit = Number.POSITIVE_INFINITY): Promise<Waiting[]> {
    const prefix = `${WAITING}${endpoint}/`
    const all: Waiting[] = []
    for (let start = prefix; ; await nextTurn()) {
      const most = Math.min(SLICE, limit - all.length)
      const entries = await this.state.list<WaitingEntry>({ prefix, start, limit: most })
      for (const { key, value } of entries) all.push({ ...value, endpoint, seq: Number(key.slice(prefix.length)) })
      if (entries.length < most || all.length >= limit) return all
      start = `${entries[most - 1].key}\0`
    }
  }

  body(endpoint: string, seq: number): Promise<string | undefined> {
    return this.state.get<string>(waitingKey('body', endpoint, seq))
  }

  /** Defines it, or defines it anew: then it is sent to again. @throws RATE_LIMITED when there are as many as there may be. */
  async define(ref: WebhookRef, url: string): Promise<Endpoint> {
    const key = keyOf(ref)
    for (;;) {
      const defined = await this.transaction([key], async (tx): Promise<Endpoint | undefined> => {
        const known = await tx.endpoint(key)
        if (known?.removed) return undefined
        const record = known === undefined ? await tx.create(key, url) : Object.assign(known, { url })
        delete record.parked
        delete record.failing_since
        return { key, ref: refOf(key), record: structuredClone(record) }
      })
      if (defined !== undefined) return defined
      await this.remove(key)
    }
  }

  /**
   * What waited is gone, in parts of some hundreds, and the endpoint with the last of them; from the first on nothing is queued for it. Whoever is broken off
   * removes it again.
   * @returns whether it was there.
   */
  async remove(key: string): Promise<boolean> {
    if ((await this.endpoint(key)) === undefined) return false
    for (let first = true; !(await this.transaction([key], (tx) => tx.remove(key, first))); first = false) await nextTurn()
    return true
  }

  /** Changes what is known of how it fares. @param guard refuses whoever may not say so any more. @returns undefined when it is gone. */
  change(key: string, change: (record: EndpointRecord) => void, guard?: ScheduledRun['guard']): Promise<Endpoint | undefined> {
    return this.transaction([key], async (tx, state) => {
      await guard?.(state)
      const record = await tx.endpoint(key)
      if (record === undefined) return undefined
      change(record)
      return { key, ref: refOf(key), record: structuredClone(record) }
    })
  }

  /**
   * All or, in parts of some hundreds, those that came first: what was queued is `known` when it is handed over again.
   * @param committed is told of each part as soon as it is there, also when one behind it fails.
   * @returns an answer for each.
   */
  async enqueue(deliveries: readonly NewDelivery[], committed: (part: Queued) => void): Promise<Queued['answers']> {
    const answers: Queued['answers'] = []
    for (const chunk of chunksOf(deliveries)) {
      // Where more is to be dropped than one transaction drops, others follow before the rest is queued.
      for (let left = chunk; left.length > 0; ) {
        if (answers.length > 0 || left !== chunk) await nextTurn()
        const part = await this.transaction(
          left.map(({ endpoint }) => endpoint),
          (tx) => queue(tx, left),
        )
        committed(part)
        answers.push(...part.answers)
        left = left.slice(part.answers.length)
      }
    }
    return answers
  }

  finish(finished: readonly Finished[]): Promise<void> {
    return this.transaction([], async (tx) => {
      for (const { endpoint, seq, result } of finished) {
        const record = await tx.endpoint(endpoint)
        if (record === undefined || (await tx.take(endpoint, seq)) === undefined) continue
        if (result === 'delivered') record.delivered++
        else record.lost++
      }
    })
  }

  /** From when it resolves on no process that delivered before takes notes. */
  async begin(guard: ScheduledRun['guard']): Promise<void> {
    await this.state.transaction(guard)
  }

  /** Endpoints that other processes have changed, each time once. @throws CONFLICT when another process delivers: it is to have them. */
  async takeNotes(guard: ScheduledRun['guard']): Promise<string[]> {
    const endpoints = new Set<string>()
    for (;;) {
      const notes = await this.state.list<string[]>({ prefix: NOTE, limit: CHUNK })
      if (notes.length === 0) return [...endpoints]
      await this.state.transaction(async (tx) => {
        await guard(tx)
        for (const { key } of notes) tx.delete(key)
      })
      for (const { value } of notes) for (const endpoint of value) endpoints.add(endpoint)
    }
  }

  /** @param touched endpoints that the process that delivers has to look at. */
  private transaction<T>(touched: readonly string[], body: (tx: OutboxTransaction, state: StateTransaction) => Promise<T>): Promise<T> {
    const run = () =>
      this.state.transaction(async (tx: StateTransaction) => {
        const own = new OutboxTransaction(tx, this.limits, this.now())
        const result = await body(own, tx)
        own.commit()
        if (this.notes !== undefined && touched.length > 0) tx.put(NOTE + this.notes(), [...new Set(touched)])
        return result
      })
    const done = this.last.then(run)
    this.last = done.catch(() => {})
    return done
  }
}

function* chunksOf(deliveries: readonly NewDelivery[]): Iterable<NewDelivery[]> {
  let chunk: NewDelivery[] = []
  let length = 0
  for (const delivery of deliveries) {
    if (chunk.length >= CHUNK || (chunk.length > 0 && length + delivery.body.length > CHUNK_BYTES)) {
      yield chunk
      chunk = []
      length = 0
    }
    chunk.push(delivery)
    length += delivery.body.length
  }
  if (chunk.length > 0) yield chunk
}

/** As many of them as there is room for once a transaction has dropped what it may. */
async function queue(tx: OutboxTransaction, deliveries: readonly NewDelivery[]): Promise<Queued> {
  const answers: Queued['answers'] = []
  const added: Waiting[] = []
  for (const delivery of deliveries) {
    const bytes = Buffer.byteLength(delivery.body) + ENTRY_BYTES
    const answer = await tx.admits(delivery.endpoint, delivery.message, bytes)
    if (answer === 'queued') {
      if (!(await tx.makeRoom(delivery.endpoint, bytes))) break
      added.push(await tx.add(delivery, bytes))
    }
    answers.push(answer)
  }
  const { dropped } = tx
  // What was queued and dropped in one go was never there.
  const gone = new Set(dropped.map(({ endpoint, seq }) => `${endpoint}/${seq}`))
  return { answers, added: added.filter(({ endpoint, seq }) => !gone.has(`${endpoint}/${seq}`)), dropped }
}

function endpointOf(key: string, record: EndpointRecord): Endpoint {
  return { key, ref: refOf(key), record }
}
