/**
 * A client of `GET /api/v1/cdc/stream` that comes back with Last-Event-ID after each cut, and has what it is sent again compared with what it was sent before. It notes ids
 * late: what it was sent and had not noted when it was cut comes again, and has to be the same events under the same ids in the same order, and then goes on.
 */
import { type ClientRequest, get } from 'node:http'
import { setTimeout } from 'node:timers/promises'
import type { Random } from 'svcdb/lib/random'

export interface StreamEvent {
  id: string
  event: string
  /** The text of its data: numbers keep their digits. */
  data: string
}

/** Events that were sent and are not noted yet, at most. */
const UNNOTED = 40
/** Events after which it leaves by itself and comes back, at most. */
const STAY = 300

export class StreamReader {
  /** Each once, in the order of the stream. */
  readonly events: StreamEvent[] = []
  /** Events that came again. */
  repeated = 0
  connections = 0
  private readonly path: string
  private readonly random: Random
  private readonly ids = new Set<string>()
  /** Where the first stream began. */
  private begin = ''
  private problem: Error | undefined

  /** @param query of the stream. */
  constructor(query: string, random: Random) {
    this.path = `/api/v1/cdc/stream${query}`
    this.random = random
  }

  /** Resolves when the first stream has said where it begins. */
  async begun(): Promise<void> {
    for (const end = Date.now() + 20_000; this.begin === ''; await setTimeout(2)) {
      this.check()
      if (Date.now() > end) throw new Error(`${this.path} does not say where it begins`)
    }
  }

  /** Reads until the signal or until the server is gone, whichever is first. */
  async follow(url: string, signal: AbortSignal): Promise<void> {
    while (!signal.aborted && this.problem === undefined && (await this.once(url, signal)));
    this.check()
  }

  /** @throws Error with what was wrong of what came. */
  check(): void {
    if (this.problem !== undefined) throw this.problem
  }

  /** @returns whether the server may still be there. */
  private once(url: string, signal: AbortSignal): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>()
    let at = Math.max(0, this.events.length - Math.floor(this.random() * UNNOTED))
    const last = at === 0 ? this.begin : this.events[at - 1].id
    const leave = this.random() < 0.5 ? Math.floor(this.random() * STAY) : Number.POSITIVE_INFINITY
    let left = leave
    this.connections++
    const request: ClientRequest = get(`${url}${this.path}`, { agent: false, signal, headers: last === '' ? {} : { 'last-event-id': last } }, (answer) => {
      let text = ''
      answer.setEncoding('utf8')
      answer.on('data', (fragment: string) => {
        text += fragment
        const blocks = text.split('\n\n')
        text = blocks.pop() as string
        for (const block of blocks) {
          if (this.problem !== undefined || left <= 0) break
          const event = eventOf(block)
          if (event.data === '') {
            if (event.id !== '' && this.begin === '') this.begin = event.id
            continue
          }
          if (answer.statusCode !== 200) this.problem = new Error(`${this.path} was answered ${answer.statusCode}: ${block}`)
          else this.take(at++, event, last)
          left--
        }
        if (this.problem !== undefined || left <= 0) {
          request.destroy()
          resolve(this.problem === undefined)
        }
      })
      answer.on('end', () => {
        if (answer.statusCode !== 200) this.problem ??= new Error(`${this.path} was answered ${answer.statusCode}: ${text}`)
        resolve(false)
      })
      answer.on('error', () => resolve(false))
      answer.on('close', () => resolve(false))
    })
    request.on('error', () => resolve(false))
    return promise
  }

  private take(at: number, event: StreamEvent, last: string): void {
    const known = this.events[at]
    if (known === undefined) {
      if (event.event === 'gap' || event.event === 'end') this.problem = new Error(`${this.path} after "${last}" says ${event.event}: ${event.data}`)
      else if (this.ids.has(event.id)) this.problem = new Error(`${this.path}: the id ${event.id} comes for a second event: ${event.data}`)
      this.ids.add(event.id)
      this.events.push(event)
      return
    }
    this.repeated++
    if (known.id !== event.id || known.data !== event.data || known.event !== event.event)
      this.problem = new Error(`${this.path} after "${last}": event ${at} was\n${JSON.stringify(known)}\nand came again as\n${JSON.stringify(event)}`)
  }
}

function eventOf(block: string): StreamEvent {
  const event = { id: '', event: '', data: '' }
  for (const line of block.split('\n')) {
    const [, name, value] = /^([^:]*):? ?(.*)$/s.exec(line) as RegExpExecArray
    if (name === 'id' || name === 'event' || name === 'data') event[name] = value
  }
  return event
}
