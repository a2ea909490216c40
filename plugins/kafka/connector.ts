/** A connector: records of topics to points. Offsets are committed when the points of all records before them are durable. */
import type { Connector, PointFormat, PointReader, Svc } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { Turn } from 'svcdb/lib/event-loop'
import {
  type DeadLetters,
  deadLettersOf,
  type GiveAgain,
  Replay,
  type Replayed,
  requireWhole,
  SampledLog,
  Source,
  type SourceStatus,
  sectionOptions,
  TopicRules,
} from 'svcdb/lib/source'
import { accessOf } from './access.ts'
import {
  type ConsumerClient,
  type ConsumerOptions,
  type Fetched,
  type KafkaLibrary,
  type KafkaRecord,
  type OutgoingRecord,
  type PartitionOffset,
  type ProducerClient,
  RecordRefused,
} from './client.ts'
import { beginOf, type ConnectorConfig } from './config.ts'
import { letterOf, recordOf, replayTopic } from './dead-letter-topic.ts'
import type { KafkaMetrics } from './metrics.ts'
import { GroupOffsets, Settled } from './offsets.ts'
import { timeOf } from './record-time.ts'

/** How long records in flight may take when their partition is taken away; then they are left to the next owner. */
const REVOKE_MS = 10_000
/** Ends of partitions are asked for, for the lag of what is not fetched. */
const LAG_MS = 10_000

interface Message {
  topic: string
  partition: number
  record: KafkaRecord
  /** Of a dead letter that is read again. */
  again?: { replayed: Replayed; time: bigint | undefined; bytes: number }
}

export class KafkaConnector implements Connector {
  readonly type = 'kafka'
  readonly name: string
  readonly namespace: string
  private readonly svc: Svc
  private readonly config: ConnectorConfig
  private readonly library: () => Promise<KafkaLibrary>
  private readonly metrics: KafkaMetrics
  private readonly source: Source<Message>
  private readonly again: Replay<Message>
  private readonly rules: TopicRules
  private readonly letters: DeadLetters | undefined
  private readonly unread: SampledLog
  private readonly offsets = new GroupOffsets()
  private format: PointFormat | undefined
  private reader: PointReader | undefined
  private client: ConsumerClient | undefined
  private producer: ProducerClient | undefined
  /** The source has no room. */
  private paused = false
  /** Partitions hand their records to the source one after the other. */
  private turn: Promise<void> = Promise.resolve()
  /** Fetches that are not settled. */
  private under = 0
  private committing: Promise<void> | undefined
  private stopLags: (() => void) | undefined
  private stopped = false

  /** Call it in setup. @throws Error for topic patterns that are none. */
  constructor(svc: Svc, config: ConnectorConfig, metrics: KafkaMetrics, library: () => Promise<KafkaLibrary>) {
    this.svc = svc
    this.config = config
    this.metrics = metrics
    this.library = library
    this.name = config.name
    this.namespace = config.namespace
    this.unread = new SampledLog(svc.log, () => svc.clock.monotonic())
    this.rules = new TopicRules({ measurements: config.topic_measurement_map, tags: config.tags_from_topic, fallback: 'topic', separator: '.' })
    // With a topic, too: for what brokers do not take.
    this.letters = deadLettersOf(svc.dataDir, {
      name: config.name,
      maxBytes: config.dead_letter_bytes,
      dropped: (messages) => metrics.dropped.inc({ connector: this.name }, messages),
    })
    this.source = new Source<Message>(svc, {
      ...sectionOptions(config),
      // Known from the start phase on.
      nonFinite: () => this.format?.nonFinite ?? false,
      decode: ({ topic, record, again }, batch, _, further) => {
        if (record.unread !== undefined) throw new SvcError('PAYLOAD_TOO_LARGE', record.unread.why)
        const body = record.value as Buffer
        if (again !== undefined) requireWhole({ body, bytes: again.bytes })
        if (body.length > config.max_message_bytes)
          throw new SvcError('PAYLOAD_TOO_LARGE', `cannot read a record of ${body.length} bytes: kafka.max_message_bytes is ${config.max_message_bytes}`)
        const { measurement, tags } = this.rules.of(topic)
        return (this.reader as PointReader).read({ body, time: again?.time ?? timeOf(record, config.time_header), measurement, tags }, batch, further)
      },
      deadLetter: (message, error) => this.bury(message, error),
      pause: () => {
        this.paused = true
      },
      resume: () => {
        this.paused = false
      },
    })
    this.again = new Replay(config.name, this.source)
  }

  status(): SourceStatus {
    return this.source.status()
  }

  lag(): number | null {
    return this.offsets.lag
  }

  lags(): ReturnType<GroupOffsets['lags']> {
    return this.offsets.lags()
  }

  start(format: PointFormat | undefined): void {
    this.format = format
    this.reader = this.format?.reader()
  }

  /** Takes records until the signal is aborted; then other members of the group go on where it has committed. */
  async run(signal: AbortSignal): Promise<void> {
    const connecting = this.connect(signal)
    await aborted(signal)
    // A node that stops drains first.
    if (this.svc.stopping.aborted) return
    await this.leave()
    await connecting
    this.client = undefined
    this.producer = undefined
    this.source.disconnected(undefined, 'stopped')
    this.svc.log.info({ connector: this.name }, 'this member has left the consumer group')
  }

  /** Never rejects: brokers that are away are tried again. */
  private async connect(signal: AbortSignal): Promise<void> {
    const { config } = this
    const library = await this.library()
    if (this.svc.stopping.aborted || signal.aborted) return
    const { access, log } = this.consumerOptions()
    if (config.dead_letter_topic !== undefined) this.producer = library.producer({ access, log })
    this.client = library.consumer(
      { ...this.consumerOptions(), groupId: this.groupId, topics: config.topics, begin: beginOf(config, config.name) },
      {
        fetched: (fetched) => this.fetched(fetched),
        joined: (generation, owned) => this.joined(generation, owned),
        lost: (error, state) => this.lost(error, state),
        gone: (topic, partition) => this.gone(topic, partition),
      },
    )
    this.watchLags()
    await this.client.start()
  }

  /** After the source has drained: what is not committed comes again. */
  async stop(): Promise<void> {
    this.stopped = true
    await this.leave()
    await this.letters?.close()
  }

  private async leave(): Promise<void> {
    this.stopLags?.()
    await this.commit()
    await this.client?.stop()
    await this.producer?.stop()
  }

  private joined(generation: number, owned: readonly PartitionOffset[]): void {
    this.offsets.join(generation, owned)
    this.metrics.joins.inc({ connector: this.name })
    this.source.connected()
    void this.askLags()
    this.svc.log.info({ connector: this.name, partitions: owned.length }, 'a member of the consumer group')
  }

  private lost(error: Error, state: 'reconnecting' | 'failed'): void {
    this.offsets.leave()
    if (this.source.up || this.source.status().lastError !== error.message)
      this.svc.log.warn({ connector: this.name }, `cannot consume, tried again every ${this.config.reconnect_ms / 1000} s: ${error.message}`)
    this.source.disconnected(new SvcError('OVERLOADED', error.message), state)
  }

  private gone(topic: string, partition: number): void {
    const why = 'retention has taken it, or the topic was made anew'
    this.svc.log.warn(
      { connector: this.name },
      `the next record of ${topic}/${partition} is one that the broker no longer has (${why}): goes on with the oldest there is`,
    )
  }

  /** Never rejects. */
  private async fetched(fetched: Fetched): Promise<number> {
    const { topic, partition, generation, records, behind, end, ending } = fetched
    if (records.length > 0) this.offsets.begins(generation, { topic, partition, offset: Number(records[0].offset) })
    this.offsets.reaches({ topic, partition, end })
    const settled = new Settled(
      records.map(({ offset }) => Number(offset)),
      behind,
    )
    this.under++
    try {
      await this.inTurn(() => this.take(fetched, settled))
      await this.settledOrLeft(settled, ending)
      const offset = settled.next
      this.offsets.settled(generation, { topic, partition, offset })
      return offset
    } finally {
      this.under--
      // With the last of what was fetched together; before a partition goes, and at the end, it is waited for.
      if (this.under === 0 || ending.aborted) {
        const commit = this.commit()
        if (ending.aborted) await commit
      }
    }
  }

  /** Hands records to the source, as there is room. */
  private async take({ topic, partition, records, ending }: Fetched, settled: Settled): Promise<void> {
    const turn = new Turn()
    for (const [i, record] of records.entries()) {
      if (ending.aborted || this.svc.stopping.aborted) {
        for (let rest = i; rest < records.length; rest++) settled.giveBack(rest)
        return
      }
      this.metrics.consumed.inc()
      const bytes = record.value?.length ?? 0
      if (bytes === 0 && record.unread === undefined) {
        this.metrics.empty.inc()
        settled.settle(i)
        continue
      }
      void this.source.take({
        body: { topic, partition, record },
        bytes,
        ack: () => settled.settle(i),
        nack: () => settled.giveBack(i),
      })
      if (this.paused) await Promise.race([this.source.room(), aborted(ending)])
      if (turn.isOver) await turn.next()
    }
  }

  /** Until each is settled or given back; when the partition is to go, for a while. */
  private async settledOrLeft({ finished }: Settled, ending: AbortSignal): Promise<void> {
    let isFinished = false
    await Promise.race([finished.then(() => (isFinished = true)), aborted(ending)])
    if (isFinished) return
    const late = Promise.withResolvers<void>()
    const cancel = this.svc.clock.after(REVOKE_MS, late.resolve)
    await Promise.race([finished, late.promise])
    cancel()
  }

  private async inTurn(work: () => Promise<void>): Promise<void> {
    const before = this.turn
    const done = Promise.withResolvers<void>()
    this.turn = done.promise
    await before
    try {
      await work()
    } finally {
      done.resolve()
    }
  }

  /** Commits what is due. Never rejects. */
  private async commit(): Promise<void> {
    // One at a time: the next takes what has become due since.
    while (this.committing !== undefined) await this.committing
    const { generation } = this.offsets
    const due = this.offsets.due()
    if (due.length === 0 || this.client === undefined) return
    this.committing = this.client
      .commit(generation, due)
      .then(
        () => {
          this.offsets.committed(generation, due)
          this.metrics.commits.inc({ connector: this.name })
        },
        (error: Error) => {
          this.metrics.commitFailures.inc({ connector: this.name })
          this.svc.log.debug({ connector: this.name }, `cannot commit offsets: ${error.message}`)
        },
      )
      .finally(() => {
        this.committing = undefined
      })
    await this.committing
  }

  private watchLags(): void {
    this.stopLags = this.svc.clock.after(LAG_MS, () => {
      void this.askLags().finally(() => {
        if (!this.stopped) this.watchLags()
      })
    })
  }

  private async askLags(): Promise<void> {
    if (this.offsets.partitions === 0) return
    try {
      for (const lag of (await this.client?.lags()) ?? []) this.offsets.reaches(lag)
    } catch (error) {
      this.svc.log.debug({ connector: this.name }, `cannot ask for the ends of partitions: ${(error as Error).message}`)
    }
    // One that failed is tried again.
    await this.commit()
  }

  private get groupId(): string {
    return this.config.group_id ?? `svc-${this.config.name}`
  }

  private consumerOptions(): Omit<ConsumerOptions, 'groupId' | 'topics' | 'begin'> {
    const { config } = this
    return {
      access: () => accessOf(config),
      // Failures are told by `lost`, once.
      log: (level, text) => this.svc.log.debug({ connector: this.name, level }, text),
      sessionTimeoutMs: config.session_timeout_ms,
      fetchMaxBytes: config.fetch_max_bytes,
      fetchWaitMs: config.fetch_wait_ms,
      maxResponseBytes: config.fetch_max_bytes + config.max_response_bytes,
      reconnectMs: config.reconnect_ms,
    }
  }

  replay(): Promise<Replayed> {
    const { letters, config } = this
    return this.again.run(async (give) => {
      if (config.dead_letter_topic !== undefined) await this.replayTopic(config.dead_letter_topic, give)
      const damaged = await letters?.replay(({ time, topic, body, bytes = body.length, pointTime = BigInt(time) * 1_000_000n }) =>
        give((replayed) => ({ ...placeOf(topic, body as Buffer, null), again: { replayed, time: pointTime, bytes } }), body.length),
      )
      return damaged ?? 0
    })
  }

  private async replayTopic(topic: string, give: GiveAgain<Message>): Promise<void> {
    await replayTopic({
      library: await this.library(),
      options: { ...this.consumerOptions(), groupId: `${this.groupId}-replay`, topics: [topic], begin: 'earliest' },
      after: (ms, callback) => this.svc.clock.after(ms, callback),
      give: async (record) => {
        const letter = letterOf(record)
        const { key, value } = record
        if (letter === undefined || value === null) return
        const time = letter.time ?? timeOf(record, undefined)
        await give((replayed) => ({ ...placeOf(letter.place, value, key), again: { replayed, time, bytes: value.length } }), value.length)
      },
    })
  }

  private async bury({ topic, partition, record, again }: Message, error: SvcError): Promise<void> {
    const { offset, key, value, unread } = record
    if (again !== undefined) again.replayed.failed++
    else {
      this.metrics.errors.inc()
      this.unread.warn({ connector: this.name, topic, partition, offset, code: error.code }, `a record is with the dead letters: ${error.message}`)
    }
    const { code, message } = error
    const place = `${topic}/${partition}@${offset}`
    const time = again === undefined ? this.timeOf(record) : again.time
    if (await this.sent(recordOf({ place, time, code, error: message }, { key, value }))) return
    const body = value ?? Buffer.alloc(0)
    const bytes = again?.bytes ?? unread?.bytes ?? body.length
    await this.letters?.add({ time: this.svc.clock.now(), topic: place, code, error: message, body, bytes, pointTime: time })
  }

  /** @returns false where there is no topic of dead letters, or its brokers never take this one. */
  private async sent(letter: OutgoingRecord): Promise<boolean> {
    const { dead_letter_topic: topic } = this.config
    if (this.producer === undefined || topic === undefined) return false
    try {
      await this.producer.send(topic, letter)
      return true
    } catch (error) {
      if (!(error instanceof RecordRefused)) throw error
      this.unread.warn({ connector: this.name, topic }, `a dead letter is kept in the file, for the brokers do not take it: ${error.message}`)
      return false
    }
  }

  /** Undefined where that is what is wrong with it. */
  private timeOf(record: KafkaRecord): bigint | undefined {
    try {
      return timeOf(record, this.config.time_header)
    } catch {
      return undefined
    }
  }
}

/** A record as it was, of what its dead letter says of it. @param place `topic/partition@offset`. */
function placeOf(place: string, value: Buffer, key: Buffer | null): Message {
  const [, topic = place, partition = '0', offset = '0'] = /^(.*)\/(\d+)@(\d+)$/s.exec(place) ?? []
  return { topic, partition: Number(partition), record: { offset, timestamp: '-1', key, value, headers: {} } }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
}
