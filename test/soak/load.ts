/** The writers of the soak: line protocol of many series in random order, over a few connections. Lines are made once; digits in them change. */
import { Agent, request } from 'node:http'
import { setTimeout } from 'node:timers/promises'

const LINES_PER_WRITE = 5000
/** Bodies that are made: lines of one come again in the same order only after all others. */
const ORDERS = 8
const COUNTER_DIGITS = 10
const TIME_DIGITS = 13
const CHARACTER_0 = 48
/** Back-pressure is answered by a pause. */
const PAUSE_MS = 50

export interface LoadOptions {
  url: string
  /** Distinct hosts, a series each, of three fields. */
  series: number
  connections: number
  /** Rows a second at most; undefined: as fast as they are taken. */
  rate(): number | undefined
  /** Rows of the time of `until`, in milliseconds, and `seconds` before come first, as fast as they are taken. */
  past: { rows: number; seconds: number; until: number }
}

interface Body {
  bytes: Buffer
  /** By line: the series, and where its fields stand. */
  hosts: Int32Array
  counters: Int32Array
  gauges: Int32Array
  times: Int32Array
}

export class Load {
  /** Rows acknowledged. */
  rows = 0
  /** Writes that were refused for back-pressure. */
  refused = 0
  private readonly options: LoadOptions
  private readonly agent: Agent
  private readonly bodies: Body[]
  private readonly totals: Float64Array
  private nextBody = 0
  private made = 0
  private stopping = false
  private writers: Promise<void>[] = []
  private allowance = 0
  private refilled = 0

  constructor(options: LoadOptions) {
    this.options = options
    this.agent = new Agent({ keepAlive: true, maxSockets: options.connections })
    this.totals = new Float64Array(options.series)
    this.bodies = Array.from({ length: ORDERS }, () => bodiesOf(options.series)).flat()
  }

  start(): void {
    this.refilled = performance.now()
    this.writers = Array.from({ length: this.options.connections }, () => this.write())
  }

  /** @throws Error of the first write that failed. */
  async stop(): Promise<void> {
    this.stopping = true
    await Promise.all(this.writers)
    this.agent.destroy()
  }

  /** Rejects when a writer fails. */
  get failed(): Promise<void> {
    return Promise.all(this.writers).then(() => undefined)
  }

  private async write(): Promise<void> {
    const own: Buffer = Buffer.alloc(Math.max(...this.bodies.map(({ bytes }) => bytes.length)))
    while (!this.stopping) {
      await this.allowed()
      const body = this.bodies[this.nextBody++ % this.bodies.length]
      this.fill(body)
      body.bytes.copy(own)
      if (await this.send(own.subarray(0, body.bytes.length))) this.rows += body.hosts.length
      else {
        this.refused++
        await setTimeout(PAUSE_MS)
      }
    }
  }

  /** Waits until the rate allows another body. */
  private async allowed(): Promise<void> {
    const { rate } = this.options
    for (;;) {
      const rows = rate()
      if (rows === undefined || this.stopping || this.inPast) return
      const now = performance.now()
      this.allowance = Math.min(rows, this.allowance + ((now - this.refilled) / 1000) * rows)
      this.refilled = now
      if (this.allowance >= LINES_PER_WRITE) {
        this.allowance -= LINES_PER_WRITE
        return
      }
      await setTimeout(Math.max(1, ((LINES_PER_WRITE - this.allowance) / rows) * 1000))
    }
  }

  /** Whether rows of the past are being written. */
  get inPast(): boolean {
    return this.made < this.options.past.rows
  }

  private fill({ bytes, hosts, counters, gauges, times }: Body): void {
    const { rows, seconds, until } = this.options.past
    const now = this.inPast ? Math.floor(until - seconds * 1000 * (1 - this.made / rows)) : Date.now()
    this.made += hosts.length
    for (let line = 0; line < hosts.length; line++) {
      const host = hosts[line]
      const total = (this.totals[host] += 1 + (line & 7))
      digits(bytes, counters[line], COUNTER_DIGITS, total)
      digits(bytes, gauges[line], 2, (total * 7 + host) % 100)
      digits(bytes, times[line], TIME_DIGITS, now)
    }
  }

  /** @returns false when it was refused for back-pressure. @throws Error for any other answer than an acknowledgement. */
  private send(body: Buffer): Promise<boolean> {
    return new Promise((resolve, reject) => {
      const options = { method: 'POST', agent: this.agent, headers: { 'content-type': 'text/plain', 'content-length': body.length } }
      const sent = request(`${this.options.url}/write?precision=ms`, options, (answer) => {
        let said = ''
        answer.on('data', (chunk: Buffer) => {
          said += chunk
        })
        answer.on('error', reject)
        answer.on('end', () => {
          if (answer.statusCode === 204) resolve(true)
          else if (answer.statusCode === 503) resolve(false)
          else reject(new Error(`a write was answered ${answer.statusCode}: ${said.slice(0, 500)}`))
        })
      })
      sent.on('error', reject)
      sent.end(body)
    })
  }
}

export const hostName = (host: number): string => `h${String(host).padStart(7, '0')}`

/** All series in a new random order, in bodies. */
function bodiesOf(series: number): Body[] {
  const order = Int32Array.from({ length: series }, (_, host) => host)
  for (let i = series - 1; i > 0; i--) {
    const j = Math.floor(Math.random() * (i + 1))
    const swapped = order[i]
    order[i] = order[j]
    order[j] = swapped
  }
  const bodies: Body[] = []
  for (let from = 0; from < series; from += LINES_PER_WRITE) bodies.push(bodyOf(order.slice(from, from + LINES_PER_WRITE)))
  return bodies
}

function bodyOf(hosts: Int32Array): Body {
  const [counters, gauges, times] = [new Int32Array(hosts.length), new Int32Array(hosts.length), new Int32Array(hosts.length)]
  const lines: string[] = []
  let at = 0
  for (const [line, host] of hosts.entries()) {
    const head = `soak,dc=dc${host % 8},host=${hostName(host)} a=`
    counters[line] = at + head.length
    gauges[line] = counters[line] + COUNTER_DIGITS + ',b='.length
    times[line] = gauges[line] + '00.5,c=1i '.length
    lines.push(`${head}${'0'.repeat(COUNTER_DIGITS)},b=00.5,c=${host % 10}i ${'0'.repeat(TIME_DIGITS)}\n`)
    at += lines[line].length
  }
  return { bytes: Buffer.from(lines.join('')), hosts, counters, gauges, times }
}

function digits(bytes: Buffer, at: number, count: number, value: number): void {
  for (let i = at + count - 1; i >= at; i--) {
    const rest = Math.floor(value / 10)
    bytes[i] = CHARACTER_0 + (value - rest * 10)
    value = rest
  }
}
