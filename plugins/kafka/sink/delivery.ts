/**
 * Records to brokers, until they have them: through sessions of a client library, each closed after a failure, since what has become of its last send is
 * not known. What brokers never take is taken apart down to the record that is to blame, which is a dead letter.
 */
import type { Clock } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { runsOf, sizeOf } from './batch.ts'
import type { SinkMetrics } from './metrics.ts'
import { pause } from './pause.ts'
import { SendError, type SinkProducer, type SinkRecord } from './producer.ts'

const FIRST_PAUSE_MS = 100

export interface DeliveryOptions {
  sink: string
  /** Ends all of it. */
  signal: AbortSignal
  clock: Clock
  metrics: SinkMetrics
  log: { info(o: object, text: string): void; warn(o: object, text: string): void }
  /** The longest wait before a send is tried again. */
  reconnectMs: number
  open(): Promise<SinkProducer>
  bury(record: SinkRecord, error: SvcError): Promise<void>
}

export class Delivery {
  records = 0
  points = 0
  deadLetters = 0
  inFlight = 0
  inFlightBytes = 0
  connected = false
  /** Why it is refused, when somebody has to mend that. */
  failed: string | undefined
  lastError: string | undefined
  /** Of the clock that never goes back. */
  lastSent: number | undefined
  private readonly options: DeliveryOptions
  private producer: SinkProducer | undefined
  private connectedAt = 0
  private pointsBefore = 0

  constructor(options: DeliveryOptions) {
    this.options = options
  }

  /** What is sent now is tried again. */
  get failing(): boolean {
    return !this.connected
  }

  get pointsPerSecond(): number {
    const secs = (this.options.clock.monotonic() - this.connectedAt) / 1000
    return this.connected && secs > 0 ? (this.points - this.pointsBefore) / secs : 0
  }

  /** Resolves when there is a session. @throws Error when the sink has ended. */
  connect(): Promise<void> {
    return this.patiently(async () => {
      await this.session()
    })
  }

  /** Resolves when brokers have all of them, or they are dead letters. @throws Error when the sink has ended. */
  async deliver(records: readonly SinkRecord[], { max_batch_bytes, max_message_bytes }: { max_batch_bytes: number; max_message_bytes: number }): Promise<void> {
    const sendable: SinkRecord[] = []
    for (const record of records) {
      if (sizeOf(record) <= max_message_bytes) sendable.push(record)
      else await this.options.bury(record, tooLarge(record, `kafka.sink.max_message_bytes is ${max_message_bytes}`))
    }
    this.inFlight = sendable.length
    for (const { key, value } of sendable) this.inFlightBytes += key.length + value.length
    try {
      for (const run of runsOf(sendable, max_batch_bytes)) await this.deliverRun(run)
    } finally {
      this.inFlight = 0
      this.inFlightBytes = 0
    }
  }

  async close(): Promise<void> {
    this.connected = false
    const { producer } = this
    this.producer = undefined
    await producer?.close()
  }

  private async deliverRun(run: readonly SinkRecord[]): Promise<void> {
    const { metrics, sink, clock } = this.options
    const refusal = await this.patiently(async () => {
      const producer = await this.session()
      try {
        await producer.send(run)
        return undefined
      } catch (error) {
        await this.close()
        if (error instanceof SendError && error.kind === 'record') return error
        throw error
      }
    })
    if (refusal === undefined) {
      this.records += run.length
      this.lastSent = clock.monotonic()
      let bytes = 0
      for (const { value, headers } of run) {
        bytes += value.length
        if (headers['svc-event'] === undefined) this.points++
      }
      metrics.records.inc({ sink }, run.length)
      metrics.bytes.inc({ sink }, bytes)
    } else if (run.length === 1) await this.options.bury(run[0], tooLarge(run[0], refusal.message))
    else {
      const half = run.length >> 1
      await this.deliverRun(run.slice(0, half))
      await this.deliverRun(run.slice(half))
    }
  }

  private async session(): Promise<SinkProducer> {
    if (this.producer !== undefined) return this.producer
    const opening = this.options.open()
    // One that comes too late is closed again.
    opening.then(
      (producer) => {
        if (this.options.signal.aborted) void producer.close()
      },
      () => {},
    )
    const producer = await unlessEnded(opening, this.options.signal)
    this.producer = producer
    this.connected = true
    this.failed = undefined
    this.connectedAt = this.options.clock.monotonic()
    this.pointsBefore = this.points
    return producer
  }

  private async patiently<T>(attempt: () => Promise<T>): Promise<T> {
    const { signal, clock, reconnectMs, metrics, sink, log } = this.options
    for (let tries = 0; ; tries++) {
      if (signal.aborted) throw ended()
      try {
        const result = await unlessEnded(attempt(), signal)
        if (tries > 0) log.info({ sink }, 'changes are sent to Kafka again')
        this.failed = undefined
        return result
      } catch (error) {
        if (signal.aborted) throw error
        const { message } = error as Error
        const away = error instanceof SendError && error.kind === 'away'
        this.connected = false
        if (this.lastError !== message || tries === 0) log.warn({ sink }, `cannot send changes to Kafka, tried again until it works: ${message}`)
        this.lastError = message
        this.failed = away ? undefined : message
        metrics.retries.inc({ sink })
        const ms = Math.min(reconnectMs, FIRST_PAUSE_MS * 2 ** Math.min(tries, 20))
        await pause(clock, ms * (0.5 + Math.random() / 2), signal)
      }
    }
  }
}

const ended = (): Error => new Error('the sink has ended')

/** Not a race against a promise that lives as long as the sink: it would keep something for each send. @throws Error when the sink ends before the work. */
function unlessEnded<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const end = (): void => reject(ended())
    signal.addEventListener('abort', end, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', end))
    if (signal.aborted) end()
  })
}

const tooLarge = ({ key, value }: SinkRecord, reason: string): SvcError =>
  new SvcError('PAYLOAD_TOO_LARGE', `cannot send a record of ${key.length + value.length} bytes: ${reason}`)
