/**
 * The client library: kafkajs. What it does by itself and is relied upon here: before it joins a group again it waits for the batches that it has handed
 * over, so that a partition is settled and committed before it is taken away; an offset is fetched from where the last batch was resolved to.
 *
 * It is loaded with the first connection.
 */
import { createRequire } from 'node:module'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Admin, Consumer, EachBatchPayload, Kafka, KafkaConfig, logLevel as LogLevel, Producer } from 'kafkajs'
import { withoutAborted } from './aborted.ts'
import { fewBrokers, limitedSockets, type SocketFactory, strict } from './answers.ts'
import {
  type Access,
  type ConsumerClient,
  type ConsumerEvents,
  type ConsumerOptions,
  type KafkaLibrary,
  type OutgoingRecord,
  type PartitionLag,
  type PartitionOffset,
  type ProducerClient,
  RecordRefused,
} from './client.ts'
import { GZIP, LZ4, SNAPPY, ZSTD } from './codecs.ts'
import { batchesDecoder } from './record-batches.ts'

type Library = typeof import('kafkajs')

const CONNECT_MS = 10_000
const REQUEST_MS = 30_000
/** Asked while a batch is at work; the library asks the broker when its own interval is over. */
const HEARTBEAT_TURN_MS = 500
/** The end of a client: for the broker's answer to its leave. */
const STOP_MS = 5000
/** Handed over at a time; the work of one fetch waits for one another anyway. */
const PARTITIONS_AT_ONCE = 64
const BEGIN_RETRY_MS = 500
const BEGIN_TRIES = 5
/** Of the network; all else is said by the broker, or of certificates. */
const UNREACHABLE: ReadonlySet<string> = new Set(
  'ECONNREFUSED ECONNRESET ECONNABORTED EPIPE ETIMEDOUT ENOTFOUND EAI_AGAIN EHOSTUNREACH EHOSTDOWN ENETUNREACH ENETDOWN'.split(' '),
)
/** Of the library: the broker is away, or busy with its own; all others it has said no. */
const PASSING: ReadonlySet<string> = new Set([
  'KafkaJSConnectionClosedError',
  'KafkaJSNoBrokerAvailableError',
  'KafkaJSRequestTimeoutError',
  'KafkaJSBrokerNotFound',
  'KafkaJSGroupCoordinatorNotFound',
  'KafkaJSLockTimeout',
])

/** What brokers say of records themselves. */
const OF_RECORDS: ReadonlySet<string> = new Set(['MESSAGE_TOO_LARGE', 'RECORD_LIST_TOO_LARGE', 'INVALID_RECORD', 'INVALID_TIMESTAMP'])

/** Answers to fetches that have nothing, and come at once, in a row: a broker may have a reason for some. */
const HASTY_FETCHES = 10
/** Of the library: what it commits for a partition whose next record is gone, and what it says then. */
const EARLIEST = -2
const OUT_OF_RANGE = 'Offset out of range, resetting to default offset'
/** Of an answer that is no fetch: those are some bytes for each topic and partition. */
const RESPONSE_BYTES = 64 * 1024 * 1024

let loaded: Library | undefined

/** @returns the library, with the codecs that it lacks, or has without a bound. Nobody else loads it: some of its modules are replaced before the others take them. */
export function load(): Library {
  if (loaded !== undefined) return loaded
  const require = createRequire(import.meta.url)
  const protocol = 'kafkajs/src/protocol'
  strict(require(`${protocol}/decoder.js`))
  const replace = (module: string, by: unknown): void => {
    require(module)
    ;(require.cache[require.resolve(module)] as NodeJS.Module).exports = by
  }
  replace(`${protocol}/requests/fetch/v4/decodeMessages.js`, batchesDecoder(require(`${protocol}/message/compression/index.js`).lookupCodecByAttributes))
  fewBrokers(require('kafkajs/src/broker/index.js'))
  replace('kafkajs/src/consumer/filterAbortedMessages.js', withoutAborted)
  handOver(require('kafkajs/src/consumer/batch.js'))
  const library = require('kafkajs') as Library
  const { CompressionCodecs: codecs, CompressionTypes: types } = library
  codecs[types.GZIP] = () => GZIP
  codecs[types.Snappy] = () => SNAPPY
  codecs[types.LZ4] = () => LZ4
  codecs[types.ZSTD] = () => ZSTD
  quieten(require('kafkajs/src/network/requestQueue/index.js'))
  pace(require('kafkajs/src/consumer/consumerGroup.js'))
  loaded = library
  return library
}

interface RequestQueue {
  prototype: { scheduleCheckPendingRequests?(this: { pending: unknown[]; throttledUntil: number }): void }
}

/** After each answer its queue of requests sets a timer whose time is long past, of which Node.js warns; with nothing that waits there is none to set. */
function quieten({ prototype }: RequestQueue): void {
  const schedule = prototype.scheduleCheckPendingRequests
  if (schedule === undefined) return
  prototype.scheduleCheckPendingRequests = function (): void {
    if (this.pending.length > 0 || this.throttledUntil > Date.now()) schedule.call(this)
  }
}

interface Batch {
  prototype: Record<'isEmpty' | 'isEmptyDueToFiltering' | 'isEmptyIncludingFiltered' | 'isEmptyDueToLogCompactedMessages', () => boolean>
}

/**
 * The library passes over a fetch of nothing but markers and aborted records by itself, and the group would never commit that it is behind them: it is handed over,
 * without records. One of records before the offset that was asked for says of none that it is there.
 */
function handOver({ prototype }: Batch): void {
  prototype.isEmptyDueToFiltering = prototype.isEmptyDueToLogCompactedMessages
  prototype.isEmpty = prototype.isEmptyIncludingFiltered
}

interface ConsumerGroup {
  prototype: { fetch(this: { maxWaitTime: number }, nodeId: string): Promise<{ rawMessages: readonly unknown[] }[]> }
}

/** A broker holds a fetch while there is nothing. One that does not is asked no more often than if it did: it would take a processor. */
function pace({ prototype }: ConsumerGroup): void {
  const { fetch } = prototype
  const hasty = new WeakMap<object, Map<string, number>>()
  prototype.fetch = async function (nodeId) {
    const begin = performance.now()
    const batches = await fetch.call(this, nodeId)
    const left = this.maxWaitTime - (performance.now() - begin)
    const counts = hasty.get(this) ?? new Map<string, number>()
    hasty.set(this, counts)
    const count = left > 1 && batches.every(({ rawMessages }) => rawMessages.length === 0) ? (counts.get(nodeId) ?? 0) + 1 : 0
    counts.set(nodeId, count)
    if (count > HASTY_FETCHES) await sleep(left, undefined, { ref: false })
    return batches
  }
}

export const kafkajs: KafkaLibrary = {
  consumer: (options, events) => new KafkaJsConsumer(options, events),
  producer: (options) => new KafkaJsProducer(options),
}

interface ConnectionOptions extends Pick<ConsumerOptions, 'access' | 'log'> {
  maxResponseBytes?: number
  gone?: ConsumerEvents['gone']
}

export async function connection(options: ConnectionOptions): Promise<Kafka> {
  const { Kafka, logLevel } = load()
  const sockets = createRequire(import.meta.url)('kafkajs/src/network/socketFactory.js') as () => SocketFactory
  const access = await options.access()
  return new Kafka({
    brokers: access.brokers,
    clientId: access.clientId,
    connectionTimeout: CONNECT_MS,
    authenticationTimeout: CONNECT_MS,
    requestTimeout: REQUEST_MS,
    enforceRequestTimeout: true,
    retry: { retries: 1, initialRetryTime: 200 },
    socketFactory: limitedSockets(sockets(), options.maxResponseBytes ?? RESPONSE_BYTES) as never,
    logLevel: logLevel.WARN,
    logCreator:
      () =>
      ({ level, log }) => {
        if (log.message === OUT_OF_RANGE) options.gone?.(log.topic, log.partition)
        options.log(level <= (logLevel.ERROR as LogLevel) ? 'warn' : 'debug', textOf(log))
      },
    ...(access.tls !== undefined && { ssl: access.tls }),
    ...(access.sasl !== undefined && { sasl: saslOf(access.sasl) }),
  })
}

function saslOf({ mechanism, username, password }: NonNullable<Access['sasl']>): NonNullable<KafkaConfig['sasl']> {
  return { mechanism: mechanism.toLowerCase() as 'plain', username, password }
}

const textOf = ({ message, error }: { message: string; error?: unknown }): string => (typeof error === 'string' ? `${message}: ${error}` : message)

type Failure = Error & { code?: string; type?: string }

/** What is behind the library's own. */
export function rootOf(error: Failure): Failure {
  let root = error
  for (let depth = 0; depth < 8 && root.cause instanceof Error; depth++) root = root.cause as Failure
  return root
}

/** Whether brokers never take such records. */
export const isOfRecords = ({ type }: Failure): boolean => type !== undefined && OF_RECORDS.has(type)

export function stateOf(error: Failure): 'reconnecting' | 'failed' {
  const root = rootOf(error)
  if (PASSING.has(root.name) || PASSING.has(error.name)) return 'reconnecting'
  if (root.name === 'KafkaJSConnectionError') return root.code === undefined || UNREACHABLE.has(root.code) ? 'reconnecting' : 'failed'
  const passing = 'COORDINATOR_NOT_AVAILABLE GROUP_COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR_FOR_GROUP GROUP_LOAD_IN_PROGRESS LEADER_NOT_AVAILABLE'
  if (root.type !== undefined && passing.split(' ').includes(root.type)) return 'reconnecting'
  return UNREACHABLE.has(root.code ?? '') || root.type === 'REBALANCE_IN_PROGRESS' || root.type === 'UNKNOWN_MEMBER_ID' ? 'reconnecting' : 'failed'
}

/** Waits no longer than that; what comes of it later is of no interest. */
export async function within(ms: number, work: Promise<unknown>): Promise<void> {
  const ended = new AbortController()
  await Promise.race([work.catch(() => {}), sleep(ms, undefined, { signal: ended.signal, ref: false }).catch(() => {})])
  ended.abort()
}

class KafkaJsConsumer implements ConsumerClient {
  private readonly options: ConsumerOptions
  private readonly events: ConsumerEvents
  private consumer: Consumer | undefined
  private admin: Admin | undefined
  private ended = new AbortController()
  private timer: NodeJS.Timeout | undefined
  /** Memberships of all connections are counted in one row. */
  private generation = 0
  private owned: ReadonlyMap<string, readonly number[]> = new Map()
  /** Where the partitions of this generation begin has been found out. */
  private begun: Promise<void> = Promise.resolve()
  private commitOf: EachBatchPayload['commitOffsetsIfNecessary'] | undefined
  private readonly work = new Set<AbortController>()
  /** Topics of which the group has had a place since this process is a member: what has none later is newer. */
  private readonly placed = new Set<string>()

  constructor(options: ConsumerOptions, events: ConsumerEvents) {
    this.options = options
    this.events = events
  }

  async start(): Promise<void> {
    if (this.ended.signal.aborted) return
    try {
      await this.connect()
    } catch (error) {
      await this.disconnect()
      this.again(error as Failure)
    }
  }

  private async connect(): Promise<void> {
    const { groupId, topics, sessionTimeoutMs, fetchMaxBytes, fetchWaitMs } = this.options
    const kafka = await connection({ ...this.options, gone: this.events.gone })
    const consumer = kafka.consumer({
      groupId,
      sessionTimeout: sessionTimeoutMs,
      rebalanceTimeout: Math.max(60_000, sessionTimeoutMs),
      heartbeatInterval: Math.floor(sessionTimeoutMs / 10),
      maxBytes: fetchMaxBytes,
      maxBytesPerPartition: Math.max(1, Math.min(fetchMaxBytes, 1_048_576)),
      maxWaitTimeInMs: fetchWaitMs,
      allowAutoTopicCreation: false,
      readUncommitted: false,
      retry: { retries: 5, initialRetryTime: 200, maxRetryTime: 3000, restartOnFailure: async () => false },
    })
    this.consumer = consumer
    this.admin = kafka.admin()
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => this.joined(consumer, payload.memberAssignment))
    consumer.on(consumer.events.CRASH, ({ payload }) => {
      if (this.consumer === consumer) void this.crashed(payload.error)
    })
    await consumer.connect()
    await this.admin.connect()
    // Where the library goes on when the next record is gone; where a group begins, `begin` says.
    await consumer.subscribe({ topics, fromBeginning: true })
    if (this.ended.signal.aborted) return
    await consumer.run({
      autoCommit: false,
      eachBatchAutoResolve: false,
      partitionsConsumedConcurrently: PARTITIONS_AT_ONCE,
      eachBatch: (payload) => this.each(payload),
    })
  }

  private async crashed(error: Failure): Promise<void> {
    await this.disconnect()
    this.again(error)
  }

  private again(error: Failure): void {
    if (this.ended.signal.aborted) return
    const { topics, reconnectMs } = this.options
    const root = rootOf(error)
    const unknown = root.type === 'UNKNOWN_TOPIC_OR_PARTITION'
    this.events.lost(unknown ? new Error(`the broker has no such topic, or does not show it: one of ${topics.join(', ')}`) : root, stateOf(error))
    clearTimeout(this.timer)
    this.timer = setTimeout(() => void this.start(), reconnectMs).unref()
  }

  private joined(consumer: Consumer, assignment: Record<string, number[]>): void {
    if (this.consumer !== consumer || this.ended.signal.aborted) return
    const generation = ++this.generation
    this.owned = new Map(Object.entries(assignment))
    this.commitOf = undefined
    for (const work of this.work) work.abort()
    this.begun = this.begin(consumer, generation)
  }

  /** Finds out where the group is; where it is nowhere yet, says so to the broker before anything is read, so that a start after a crash begins there. */
  private async begin(consumer: Consumer, generation: number): Promise<void> {
    const over = (): boolean => this.generation !== generation || this.consumer !== consumer
    for (let tries = 1; !over(); tries++) {
      try {
        const owned = await this.committed()
        const starts = await this.starts(owned.filter(({ offset }) => offset < 0))
        if (over()) return
        for (const place of starts) consumer.seek({ ...place, offset: String(place.offset) })
        const startOf = (place: PartitionOffset) => starts.find(({ topic, partition }) => topic === place.topic && partition === place.partition)
        this.events.joined(
          generation,
          owned.map((place) => startOf(place) ?? place),
        )
        if (starts.length > 0) await consumer.commitOffsets(starts.map((place) => ({ ...place, offset: String(place.offset) })))
        for (const topic of this.options.topics) this.placed.add(topic)
        return
      } catch (error) {
        this.options.log('warn', `cannot find where the group begins: ${(error as Error).message}`)
        if (tries >= BEGIN_TRIES) {
          if (!over()) void this.crashed(error as Failure)
          return
        }
        await sleep(BEGIN_RETRY_MS, undefined, { ref: false })
      }
    }
  }

  private async committed(): Promise<PartitionOffset[]> {
    const { groupId } = this.options
    const topics = [...this.owned.keys()]
    if (topics.length === 0) return []
    const all = await (this.admin as Admin).fetchOffsets({ groupId, topics })
    return all.flatMap(({ topic, partitions }) =>
      partitions
        .filter(({ partition }) => this.owned.get(topic)?.includes(partition))
        .map(({ partition, offset }) => ({ topic, partition, offset: Number(offset) })),
    )
  }

  private async starts(fresh: readonly PartitionOffset[]): Promise<PartitionOffset[]> {
    const admin = this.admin as Admin
    const starts: PartitionOffset[] = []
    for (const topic of new Set(fresh.map((place) => place.topic))) {
      const ends = await admin.fetchTopicOffsets(topic)
      const configured = this.placed.has(topic) ? 'earliest' : this.options.begin
      const at = typeof configured === 'number' ? await admin.fetchTopicOffsetsByTimestamp(topic, configured) : []
      for (const { partition, offset: committed } of fresh.filter((place) => place.topic === topic)) {
        const begin = committed === EARLIEST ? 'earliest' : configured
        const known = ends.find((each) => each.partition === partition)
        const timed = Number(at.find((each) => each.partition === partition)?.offset ?? -1)
        // A time behind the newest record: what comes from now on.
        const offset = typeof begin === 'number' ? (timed < 0 ? known?.high : timed) : begin === 'latest' ? known?.high : known?.low
        if (offset !== undefined) starts.push({ topic, partition, offset: Number(offset) })
      }
    }
    return starts
  }

  private async each(payload: EachBatchPayload): Promise<void> {
    const { batch, heartbeat, isRunning, isStale, resolveOffset } = payload
    const { generation } = this
    await this.begun
    // Its partition was told where to begin, after it was fetched; or it is of a membership that is over.
    if (isStale() || generation !== this.generation) return
    this.commitOf = payload.commitOffsetsIfNecessary
    const work = new AbortController()
    this.work.add(work)
    let rebalance: unknown
    const beat = setInterval(() => {
      if (!isRunning()) work.abort()
      heartbeat().catch((error: unknown) => {
        rebalance ??= error
        work.abort()
      })
    }, HEARTBEAT_TURN_MS)
    try {
      const last = batch.lastOffset()
      const behind = Number(last) + 1
      const next = await this.events.fetched({
        topic: batch.topic,
        partition: batch.partition,
        generation,
        records: batch.messages as never,
        behind,
        end: Number(batch.highWatermark),
        ending: work.signal,
      })
      if (generation !== this.generation) return
      if (next === behind) resolveOffset(last)
      else if (next > Number(batch.firstOffset())) resolveOffset(String(next - 1))
      if (rebalance !== undefined) throw rebalance
      if (next < behind && isRunning()) throw new Error('records are left to be fetched again')
    } finally {
      clearInterval(beat)
      this.work.delete(work)
    }
  }

  async commit(generation: number, offsets: readonly PartitionOffset[]): Promise<void> {
    if (generation !== this.generation || this.commitOf === undefined) throw new Error('the membership is over')
    const topics = new Map<string, { partition: number; offset: string }[]>()
    for (const { topic, partition, offset } of offsets) {
      const partitions = topics.get(topic)
      if (partitions === undefined) topics.set(topic, [{ partition, offset: String(offset) }])
      else partitions.push({ partition, offset: String(offset) })
    }
    // Once and not tried again by the library: that could be in another membership.
    await this.commitOf({ topics: [...topics].map(([topic, partitions]) => ({ topic, partitions })) })
  }

  async lags(): Promise<PartitionLag[]> {
    const admin = this.admin
    if (admin === undefined) return []
    const committed = await this.committed()
    const lags: PartitionLag[] = []
    for (const topic of this.owned.keys()) {
      for (const { partition, high } of await admin.fetchTopicOffsets(topic)) {
        const place = committed.find((each) => each.topic === topic && each.partition === partition)
        if (place !== undefined) lags.push({ ...place, end: Number(high) })
      }
    }
    return lags
  }

  async stop(): Promise<void> {
    this.ended.abort()
    clearTimeout(this.timer)
    for (const work of this.work) work.abort()
    await this.disconnect()
  }

  private async disconnect(): Promise<void> {
    const { consumer, admin } = this
    this.consumer = undefined
    this.admin = undefined
    this.generation++
    this.owned = new Map()
    this.commitOf = undefined
    for (const work of this.work) work.abort()
    await within(STOP_MS, Promise.all([consumer?.disconnect(), admin?.disconnect()]))
  }
}

class KafkaJsProducer implements ProducerClient {
  private readonly options: Pick<ConsumerOptions, 'access' | 'log'>
  private producer: Promise<Producer> | undefined

  constructor(options: Pick<ConsumerOptions, 'access' | 'log'>) {
    this.options = options
  }

  async send(topic: string, record: OutgoingRecord): Promise<void> {
    this.producer ??= this.connect()
    try {
      const producer = await this.producer
      await producer.send({ topic, acks: -1, messages: [record] })
    } catch (error) {
      const root = rootOf(error as Failure)
      // The session is good for others.
      if (isOfRecords(root)) throw new RecordRefused(root.message, { cause: error })
      const { producer } = this
      this.producer = undefined
      await within(
        STOP_MS,
        Promise.resolve(producer).then((each) => each?.disconnect()),
      )
      throw root
    }
  }

  private async connect(): Promise<Producer> {
    const kafka = await connection(this.options)
    const producer = kafka.producer({ allowAutoTopicCreation: false, retry: { retries: 2, initialRetryTime: 200 } })
    await producer.connect()
    return producer
  }

  async stop(): Promise<void> {
    const { producer } = this
    this.producer = undefined
    if (producer !== undefined)
      await within(
        STOP_MS,
        producer.then((each) => each.disconnect()),
      )
  }
}
