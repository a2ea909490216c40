/**
 * A sink: changes of a namespace to Kafka, in their order, each at least once.
 *
 * Invariants
 * - A position is kept only when brokers have acknowledged all before it, or it is with the dead letters.
 * - Nothing is sent before all before it is acknowledged: of a series, what comes again comes in its order.
 * - At most two batches are in memory, and the change that the next one is made of; the cursor waits meanwhile, at no cost to writers.
 */
import { setImmediate as turn } from 'node:timers/promises'
import type { ChangeCursor, ChangePosition, Clock, Connector, StateStore, Storage } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { type DeadLetters, SampledLog, type SourceStatus } from 'svcdb/lib/source'
import type { Access } from '../client.ts'
import { Batch } from './batch.ts'
import type { SinkConfig } from './config.ts'
import { Delivery } from './delivery.ts'
import { measurementFilter } from './measurements.ts'
import type { SinkMetrics } from './metrics.ts'
import { pause } from './pause.ts'
import { historyOf, type SinkPosition, SinkPositions } from './position.ts'
import type { SinkLibrary, SinkRecord } from './producer.ts'
import { RecordEncoder } from './records.ts'
import { TopicNames } from './topics.ts'

/** How often the position that is kept follows while there is nothing to send. */
const REST_MS = 10_000
const AGAIN_MS = 1000
/** A sink that has sent nothing for this time is idle. */
const IDLE_MS = 10_000

interface SinkHost {
  storage(): Pick<Storage, 'changes'>
  state(): StateStore
  /** Other nodes, with changes of their own, have the same state. */
  stateIsShared(): boolean
  /** @returns the namespace in the storage. @throws NAMESPACE_NOT_FOUND */
  dataNamespace(): Promise<string>
  clock: Clock
  log: { info(o: object, text: string): void; warn(o: object, text: string): void; error(o: object, text: string): void; debug(o: object, text: string): void }
  metrics: SinkMetrics
  access(): Promise<Access>
  library(): Promise<SinkLibrary>
  letters: Pick<DeadLetters, 'add' | 'close'> | undefined
  /** Milliseconds that what is gathered may take when the node stops. */
  readonly drainMs: number
  /** Milliseconds between positions that are kept while much is sent; a crash sends again what is between. */
  keepMs: number
}

export class KafkaSink implements Connector {
  readonly type = 'kafka_sink'
  readonly name: string
  readonly namespace: string
  private readonly host: SinkHost
  private readonly config: SinkConfig
  private readonly wanted: (measurement: string) => boolean
  private readonly delivery: Delivery
  private readonly encoder: RecordEncoder
  private readonly unsent: SampledLog
  /** No more is read; then, nothing is sent any more. */
  private readonly draining = new AbortController()
  private readonly ending = new AbortController()
  private positions: SinkPositions | undefined
  private cursor: ChangeCursor | undefined
  private acknowledged: SinkPosition | undefined
  private sending: Promise<void> | undefined
  private keeping: Promise<void> | undefined
  private cancelKeep: (() => void) | undefined
  private running: Promise<void> | undefined
  /** What is gathered, and what is under way. */
  private gathering: Batch | undefined
  private underway: Batch | undefined
  private followedSince = 0
  private fault: string | undefined
  /** A batch is not with the brokers, and nothing behind it may go. */
  private broken: Error | undefined

  /** @throws Error for a topic that is none. */
  constructor(host: SinkHost, config: SinkConfig) {
    this.host = host
    this.config = config
    this.name = config.name
    this.namespace = config.namespace
    this.wanted = measurementFilter(config.measurements)
    this.unsent = new SampledLog(host.log, () => host.clock.monotonic())
    this.encoder = new RecordEncoder(config.format, new TopicNames(config.topic ?? config.topic_template ?? '', config.namespace))
    this.delivery = new Delivery({
      sink: config.name,
      signal: this.ending.signal,
      clock: host.clock,
      metrics: host.metrics,
      log: host.log,
      reconnectMs: config.reconnect_ms,
      open: async () =>
        (await host.library()).open({
          access: host.access,
          compression: config.compression,
          timeoutMs: config.request_timeout_ms,
          log: (text) => host.log.debug({ sink: config.name }, text),
        }),
      bury: (record, error) => this.bury(record, error),
    })
  }

  start(): void {
    this.running = this.run()
  }

  /** Sends what is gathered, as long as it may, and keeps the position. Safe twice. */
  async stop(): Promise<void> {
    this.draining.abort()
    const cancel = this.host.clock.after(this.host.drainMs, () => this.ending.abort())
    // What cannot be reached now is sent after the next start.
    if (this.delivery.failing) this.ending.abort()
    await this.running
    cancel()
    this.ending.abort()
    this.cancelKeep?.()
    await this.keeping
    await this.keep()
    await this.delivery.close()
    await this.host.letters?.close()
  }

  /** Null while it follows no changes. */
  lag(): number | null {
    return this.cursor?.behind ?? null
  }

  lagSeconds(): number {
    const since = this.underway?.since ?? this.gathering?.since ?? (this.lag() !== 0 ? this.followedSince : undefined)
    return since === undefined ? 0 : Math.max(0, (this.host.clock.monotonic() - since) / 1000)
  }

  status(): SourceStatus {
    const { delivery, fault } = this
    const stopped = this.running === undefined || this.draining.signal.aborted
    const failed = fault ?? delivery.failed
    const working = delivery.lastSent !== undefined && this.host.clock.monotonic() - delivery.lastSent < IDLE_MS ? 'running' : 'idle'
    const status = stopped ? 'stopped' : failed !== undefined ? { failed } : delivery.connected ? working : 'reconnecting'
    return {
      name: this.name,
      status,
      up: status === 'running' || status === 'idle',
      lastError: fault ?? delivery.lastError,
      inFlight: { messages: delivery.inFlight, bytes: delivery.inFlightBytes },
      received: delivery.records,
      acknowledged: delivery.records,
      deadLettered: delivery.deadLetters,
      returned: 0,
      points: delivery.points,
      pointsRefused: 0,
      pointsPerSecond: delivery.pointsPerSecond,
    }
  }

  private get over(): boolean {
    return this.draining.signal.aborted
  }

  private async run(): Promise<void> {
    const { host, name } = this
    while (!this.over) {
      try {
        await this.follow()
        // The storage has ended it, or it has ended itself.
        if (!this.over) await pause(host.clock, AGAIN_MS, this.draining.signal)
      } catch (error) {
        if (this.over) return
        const text = (error as Error).message
        if (this.fault !== text) host.log.error({ err: error, sink: name }, `changes are not sent to Kafka, tried again every ${AGAIN_MS / 1000} s: ${text}`)
        this.fault = text
        await pause(host.clock, AGAIN_MS, this.draining.signal)
      } finally {
        this.cursor?.close()
        this.cursor = undefined
      }
    }
  }

  private async follow(): Promise<void> {
    const { host } = this
    const namespace = await host.dataNamespace()
    const from = this.acknowledged ?? (await this.begin(namespace))
    this.acknowledged = from
    const cursor = host.storage().changes({
      namespace,
      measurements: (measurement) => this.wanted(measurement),
      after: from.position,
      signal: this.draining.signal,
    })
    this.cursor = cursor
    this.followedSince = host.clock.monotonic()
    this.broken = undefined
    let batch = this.batchFrom(from)
    try {
      await this.delivery.connect()
      for (;;) {
        const coming = cursor.next()
        coming.catch(() => {}) // told where it is awaited
        batch = await this.handOverUnlessMoreComes(batch, coming)
        const change = await this.resting(coming, cursor)
        if (this.broken !== undefined) throw this.broken
        if (change === undefined) break
        batch.since ??= host.clock.monotonic()
        if (change.kind === 'gap') this.tellGap(change)
        const { partial } = batch.end
        const skip = partial?.position === change.position ? partial.frames : 0
        const before = batch.end.position
        for (const { records, frames, unwritable, last } of this.encoder.encode(change, skip)) {
          batch.add(records)
          batch.lost.push(...unwritable)
          batch.end = last ? { position: change.position } : { position: before, partial: { position: change.position, frames } }
          if (batch.full) batch = await this.handOver(batch)
          else if (!last) await turn()
          if (this.ending.signal.aborted) return
        }
      }
    } finally {
      // Stopped: what is gathered goes out if it can.
      if (this.over && !this.ending.signal.aborted && !batch.empty) await this.handOver(batch).catch(() => {})
      await this.sending
      this.gathering = undefined
    }
  }

  /** Waits for a change; meanwhile the position follows over what is not wanted. */
  private async resting<T>(coming: Promise<IteratorResult<T, undefined>>, cursor: ChangeCursor): Promise<T | undefined> {
    let came = false
    const arrived = coming.finally(() => {
      came = true
    })
    arrived.catch(() => {})
    const rest = async (): Promise<void> => {
      if (came || this.sending !== undefined || this.broken !== undefined || cursor !== this.cursor) return
      const position = await cursor.position()
      // What was handed out before has been seen when other work has had its turn.
      await turn()
      if (came || this.sending !== undefined || this.broken !== undefined || cursor !== this.cursor) return
      this.acknowledged = { position }
      if (this.gathering?.empty === true) this.gathering.since = undefined
      await this.keep()
    }
    let cancel = (): void => {}
    const again = (): void => {
      cancel = this.host.clock.after(REST_MS, () => {
        rest()
          .catch(() => {})
          .finally(() => {
            if (!came) again()
          })
      })
    }
    again()
    try {
      return (await coming).value
    } finally {
      cancel()
    }
  }

  /** Where it was; a new one begins with what takes effect from now on, also when it ends before it has sent anything. */
  private async begin(namespace: string): Promise<SinkPosition> {
    const probe = this.host.storage().changes({ namespace, measurements: [] })
    try {
      const { host, name } = this
      const now: SinkPosition = { position: await probe.position() }
      const positions = new SinkPositions(host.state(), name, { history: historyOf(now.position), shared: host.stateIsShared() })
      const known = await positions.read()
      if (known === undefined) await positions.keep(now)
      this.positions = positions
      return known ?? now
    } finally {
      probe.close()
    }
  }

  private async handOverUnlessMoreComes(batch: Batch, coming: Promise<unknown>): Promise<Batch> {
    const arrives = coming.then(
      () => true,
      () => false,
    )
    for (;;) {
      if (batch.empty && this.sending === undefined && this.broken === undefined && batch.end !== this.acknowledged) {
        this.settled(batch)
        batch.since = undefined
      }
      if (batch.empty) return batch
      const free = this.sending === undefined ? turn(false) : this.sending.then(() => false)
      if (await Promise.race([arrives, free])) return batch
      if (this.sending === undefined) return this.handOver(batch)
    }
  }

  /** The batch goes out when the one before is acknowledged. @returns the next. */
  private async handOver(batch: Batch): Promise<Batch> {
    while (this.sending !== undefined) await this.sending
    if (this.broken !== undefined) throw this.broken
    this.sending = this.send(batch)
    return this.batchFrom(batch.end)
  }

  private batchFrom(position: SinkPosition): Batch {
    this.gathering = new Batch(position, this.config.max_batch_bytes)
    return this.gathering
  }

  /** Never rejects. */
  private async send(batch: Batch): Promise<void> {
    this.underway = batch
    try {
      for (const record of batch.lost)
        await this.bury(record, new SvcError('INVALID_POINT', 'line protocol cannot hold it: it has a histogram, or a name with a line break'))
      await this.delivery.deliver(batch.records, this.config)
      this.settled(batch)
    } catch (error) {
      this.broken = error as Error
      this.cursor?.close()
    } finally {
      this.underway = undefined
      this.sending = undefined
    }
  }

  private settled({ end }: Batch): void {
    this.acknowledged = end
    this.fault = undefined
    this.cancelKeep ??= this.host.clock.after(this.host.keepMs, () => {
      this.cancelKeep = undefined
      void this.keep()
    })
  }

  /** Never rejects: what could not be kept is sent again after a crash, and kept with the next. */
  private keep(): Promise<void> {
    const before = this.keeping ?? Promise.resolve()
    const now = before.then(async () => {
      const { positions, acknowledged } = this
      if (positions === undefined || acknowledged === undefined) return
      try {
        await positions.keep(acknowledged)
      } catch (error) {
        this.host.log.warn({ err: error, sink: this.name }, 'cannot keep how far a sink is; it is tried again with the next')
      }
    })
    this.keeping = now
    return now
  }

  private tellGap({ from, to, cause }: { from: ChangePosition; to: ChangePosition; cause: string }): void {
    this.host.metrics.gaps.inc({ sink: this.name })
    this.host.log.warn(
      { sink: this.name, from, to, cause },
      'the log of changes no longer has what was to be sent to Kafka: the gap is told, and what comes is sent',
    )
  }

  private async bury({ topic, value }: SinkRecord, error: SvcError): Promise<void> {
    const { host, name } = this
    host.metrics.deadLetters.inc({ sink: name })
    this.delivery.deadLetters++
    this.unsent.warn({ sink: name, topic, code: error.code }, `a change is with the dead letters: ${error.message}`)
    await host.letters?.add({ time: host.clock.now(), topic, code: error.code, error: error.message, body: value })
  }
}
