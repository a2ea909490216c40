/**
 * What happens by itself while the soak writes: a hundred triggers and twenty rollups on the measurement, ten readers of the change stream, one of the annotations.
 * Lags are milliseconds: of triggers from the time of a point to its annotation with a client, of streams from the time of a row to its event with a client, of rollups
 * since the oldest bucket that is not there could have been.
 */
import { type ClientRequest, get } from 'node:http'
import { hostName } from './load.ts'

export const TOLERANCE_SHARDS = 2
export const SHARD_SECS = 60
export const LAGS = ['triggers', 'rollups', 'streams'] as const
export type Lag = (typeof LAGS)[number]

const TRIGGERS = 100
/** Triggers on a part of all series; the others are on one series each. */
const BROAD = 10
const WIDTHS = [10, 30, 60]
const GROUPS = [[], ['dc']]
const AGGREGATIONS = [['avg', 'max', 'count'], ['min', 'sum'], ['last'], ['stddev', 'first']]
const ROLLUPS = 20
const READERS = 10
const POLL_MS = 1000
/** Characters of a stream in which a time and an id are looked for. */
const TAIL = 600
/** The server ends streams of `cdc.max_stream_secs`; a reader goes on with another. */
const LASTED = /^event: end\ndata: \{"reason":"lasted"/m

export class Automation {
  /** Keys of the config file. */
  static readonly plugins = ['cdc', 'triggers', 'rollups']
  static readonly toml = ['[triggers]', '[cdc]', '[rollups]']
  private readonly url: string
  private readonly note: (lag: Lag, ms: number) => void
  private readonly fail: (text: string) => void
  private readonly requests: ClientRequest[] = []
  private readonly told: number[] = []
  private signals = 0
  private timer: NodeJS.Timeout | undefined
  private ended = false

  constructor(url: string, note: (lag: Lag, ms: number) => void, fail: (text: string) => void) {
    this.url = url
    this.note = note
    this.fail = fail
  }

  /** @param rowReaders of the ten readers, how many follow all rows; the others follow the targets of two rollups each. */
  async start(rowReaders: number): Promise<void> {
    for (let i = 0; i < TRIGGERS; i++) {
      const where = i < BROAD ? `dc = 'dc${i % 8}' AND c = ${i}` : `host = '${hostName(i * 7)}'`
      await this.post('/api/v1/triggers', { query: `CREATE TRIGGER t${i} ON soak WHEN b >= 99 AND ${where} COOLDOWN INTERVAL '60s'` })
    }
    for (let i = 0; i < ROLLUPS; i++) {
      const names = { name: `r${i}`, source_measurement: 'soak', target_measurement: `soak_r${i}` }
      const every = `${WIDTHS[i % WIDTHS.length]}s`
      await this.post('/api/v1/rollups', {
        ...names,
        ...{ every, aggregations: AGGREGATIONS[i % AGGREGATIONS.length], group_by_tags: GROUPS[i % GROUPS.length] },
      })
    }
    for (let i = 0; i < READERS; i++) {
      this.told.push(0)
      const rows = i < rowReaders
      this.read(`/api/v1/cdc/stream?measurement=${rows ? 'soak' : `soak_r${i * 2},soak_r${i * 2 + 1}`}`, (text, events) => {
        this.told[i] += events
        if (!LASTED.test(text) && /^event: (gap|end)$/m.test(text)) this.fail(`stream ${i}: ${/^event: (?:gap|end)\n.*\n.*/m.exec(text)?.[0].slice(0, 300)}`)
        const time = rows ? /.*"timestamp":(\d{13})\d{6},/s.exec(text.slice(-TAIL))?.[1] : undefined
        if (time !== undefined) this.note('streams', Math.max(0, Date.now() - Number(time)))
      })
    }
    this.read('/api/v1/annotations/stream', (text) => {
      if (/^event: error$/m.test(text)) this.fail(`annotations: ${text.slice(0, 300)}`)
      for (const [, time] of text.matchAll(/"time":(\d+)/g)) {
        this.signals++
        this.note('triggers', Math.max(0, Date.now() - Number(time)))
      }
    })
    this.timer = setInterval(() => {
      this.poll().catch((error) => this.ended || this.fail(`rollups: ${error.message}`))
    }, POLL_MS)
  }

  /** Ends the streams. @returns what they were told. */
  stop(): string {
    this.ended = true
    clearInterval(this.timer)
    for (const request of this.requests) request.destroy()
    return `${this.signals} annotations; events of the ten streams: ${this.told.join(', ')}`
  }

  private async poll(): Promise<void> {
    const answer = await fetch(`${this.url}/api/v1/rollups`, { signal: AbortSignal.timeout(60_000) })
    const { items } = JSON.parse((await answer.text()).replace(/("materialised_until":)(\d+)\d{6}/g, '$1$2')) as {
      items: { every: string; materialised_until: number; last_error: string | null; name: string }[]
    }
    const now = Date.now()
    let lag = 0
    for (const { every, materialised_until, last_error, name } of items) {
      if (last_error !== null) this.fail(`rollup ${name}: ${last_error}`)
      if (materialised_until === 0) continue
      const end = materialised_until + Number.parseInt(every, 10) * 1000
      const due = (Math.ceil(end / (SHARD_SECS * 1000)) + TOLERANCE_SHARDS) * SHARD_SECS * 1000
      lag = Math.max(lag, now - due)
    }
    this.note('rollups', lag)
  }

  /** Comes back where it was when the server ends the stream for its age. @param take of whole events and their number. @param after the id of the last event. */
  private read(path: string, take: (text: string, events: number) => void, after?: string): void {
    let last = after
    let lasted = false
    const request = get(this.url + path, { agent: false, headers: after === undefined ? {} : { 'last-event-id': after } }, (answer) => {
      if (answer.statusCode !== 200) this.fail(`${path} was answered ${answer.statusCode}`)
      answer.setEncoding('latin1')
      let rest = ''
      answer.on('data', (fragment: string) => {
        const end = fragment.lastIndexOf('\n\n')
        if (end < 0) {
          rest += fragment
          return
        }
        const text = rest + fragment.slice(0, end + 2)
        rest = fragment.slice(end + 2)
        last = /.*^id: (\S+)$/ms.exec(text.slice(-TAIL))?.[1] ?? last
        lasted ||= LASTED.test(text)
        let events = 0
        for (let at = text.indexOf('\ndata: '); at >= 0; at = text.indexOf('\ndata: ', at + 1)) events++
        take(text, events)
      })
      answer.on('close', () => {
        if (this.ended) return
        if (lasted && last !== undefined) this.read(path, take, last)
        else this.fail(`${path} has ended`)
      })
      answer.on('error', () => {})
    })
    request.on('error', (error) => this.ended || this.fail(`${path}: ${error.message}`))
    this.requests.push(request)
  }

  private async post(path: string, body: unknown): Promise<void> {
    const answer = await fetch(this.url + path, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })
    if (!answer.ok) throw new Error(`${path} ${JSON.stringify(body)}: ${await answer.text()}`)
    await answer.arrayBuffer()
  }
}
