/** A client that writes the workload's batches and knows what a full disk may answer. */
import { setTimeout } from 'node:timers/promises'
import { readBatches } from './ledger.ts'
import { Sender } from './sender.ts'
import { bodyOf, type Protocol, protocolOf, TEXT_PROTOCOLS } from './workload.ts'

const IN_FLIGHT = 16
/** Refusals in a row after which the disk counts as full. */
const REFUSALS = 40
const MAX_BATCHES = 100_000

interface Answer {
  status: number
  text: string
}

export class DiskWriter {
  url: string
  /** Of the gRPC listeners. */
  ports = { grpc: 0, flight: 0 }
  points = 0
  /** The last answer that named a full disk; those of a flush that is behind do not count. */
  full: Answer | undefined
  private readonly base = BigInt(Date.now()) * 1_000_000n
  private next = 0
  private readonly accepts = new Set<number>()
  private readonly refusals = new Set<number>()
  private readonly protocols: readonly Protocol[]
  private sender: { url: string; sender: Sender } | undefined

  constructor(url: string, protocols: readonly Protocol[] = TEXT_PROTOCOLS) {
    this.url = url
    this.protocols = protocols
  }

  get acknowledged(): number {
    return this.accepts.size
  }

  /** Looks anew for an answer that names a full disk. */
  forget(): void {
    this.full = undefined
  }

  get refused(): number {
    return this.refusals.size
  }

  /** Sends `count` batches, each once. */
  async write(count: number): Promise<void> {
    const end = this.next + count
    await this.senders(() => this.next < end)
  }

  /** Writes until nothing is accepted any more. @returns the last refusal. */
  async until507(): Promise<Answer> {
    let row = 0
    let last: Answer | undefined
    const end = this.next + MAX_BATCHES
    await this.senders(
      () => row < REFUSALS && this.next < end,
      (answer) => {
        row = answer.status === 507 ? row + 1 : 0
        last = answer
      },
    )
    if (last?.status !== 507) throw new Error(`the disk is not full after ${MAX_BATCHES} batches`)
    return last
  }

  /** Writes until the returned function is called. */
  keepWriting(): () => Promise<void> {
    let go = true
    const done = this.senders(() => go)
    done.catch(() => {}) // whoever stops it is told
    return async () => {
      go = false
      await done
    }
  }

  /** Writes one batch after the other until one is accepted. @returns how long that took. */
  async accepted(limitMs: number): Promise<number> {
    const began = performance.now()
    for (let tries = 0; ; tries++) {
      const answer = await this.send(this.next++)
      const took = performance.now() - began
      if (answer.status === 204) return took
      if (took > limitMs) throw new Error(`no write is accepted ${Math.round(took)} ms after space came free, ${tries} tries: ${answer.text}`)
      await setTimeout(50)
    }
  }

  /** Everything acknowledged is there, nothing refused is, no batch in part. */
  async check(): Promise<void> {
    const { present, points } = await readBatches(this.url, this.base, 0, this.next, this.protocols)
    for (const batch of this.accepts) if (!present.has(batch)) throw new Error(`acknowledged batch ${batch} is missing`)
    for (const batch of this.refusals) if (present.has(batch)) throw new Error(`batch ${batch} is there, though it was refused`)
    this.points = points
  }

  private async senders(go: () => boolean, seen: (answer: Answer) => void = () => {}): Promise<void> {
    const send = async (): Promise<void> => {
      while (go()) seen(await this.send(this.next++))
    }
    await Promise.all(Array.from({ length: IN_FLIGHT }, send))
  }

  /** @throws Error for an answer that a full disk may not give. */
  private async send(batch: number): Promise<Answer> {
    const protocol = protocolOf(batch, this.protocols)
    if (!TEXT_PROTOCOLS.includes(protocol)) return this.sendOther(batch, protocol)
    const path = protocol === 'json' ? '/api/v1/write' : '/api/v2/write?precision=ns'
    const type = protocol === 'json' ? 'application/json' : 'text/plain'
    const answer = await fetch(this.url + path, { method: 'POST', headers: { 'content-type': type }, body: bodyOf(this.base, batch, protocol) })
    const text = await answer.text()
    if (answer.status === 204) this.accepts.add(batch)
    else if (answer.status === 507 || answer.status === 503) this.refusals.add(batch)
    else throw new Error(`batch ${batch} is answered by ${answer.status}: ${text}`)
    if (answer.status === 507) {
      this.full = { status: answer.status, text }
      const after = answer.headers.get('retry-after')
      if (after !== '5') throw new Error(`507 has Retry-After ${after}`)
      if (!/"code":"STORAGE_FULL"/.test(text)) throw new Error(`507 has another code: ${text}`)
    }
    if (answer.status === 503 && !/"code":"BACKPRESSURE"/.test(text)) throw new Error(`a full disk is answered by ${text}`)
    return { status: answer.status, text }
  }

  /** @returns what a text protocol would have answered. */
  private async sendOther(batch: number, protocol: Protocol): Promise<Answer> {
    if (this.sender?.url !== this.url) {
      this.close()
      this.sender = { url: this.url, sender: new Sender({ url: this.url, base: this.base, protocols: this.protocols, ports: this.ports }) }
    }
    const given = await this.sender.sender.send(batch)
    if (given.outcome === 'ack') {
      this.accepts.add(batch)
      return { status: 204, text: '' }
    }
    const text = 'text' in given ? given.text : ''
    if (given.outcome === 'bad' || given.outcome === 'gone') throw new Error(`batch ${batch} by ${protocol} is answered by ${text || 'nothing'}`)
    this.refusals.add(batch)
    if (given.outcome === 'none') return { status: 503, text }
    this.full = { status: 507, text }
    return this.full
  }

  close(): void {
    this.sender?.sender.close()
    this.sender = undefined
  }
}
