/** A connector: messages of a broker to points. */
import { readFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import type { IClientOptions } from 'mqtt'
import type { Connector, PointFormat, PointReader, Replayed, Svc } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import {
  credentialsIn,
  type DeadLetters,
  deadLettersOf,
  messageTime,
  Replay,
  requireWhole,
  SampledLog,
  Source,
  type SourceStatus,
  sectionOptions,
  TopicRules,
} from 'svcdb/lib/source'
import { BrokerClient, type BrokerMessage } from './broker-client.ts'
import { addressOf, type ConnectorConfig } from './config.ts'
import { load } from './library.ts'
import type { MqttMetrics } from './metrics.ts'
import { SessionTopics } from './session-topics.ts'

/** What may pass until another node goes on, milliseconds of each second of the shutdown timeout: for what has come to be stored, and for the end of the connection. Less than work that a node gives up is waited for. */
const SETTLE_PART = 80
const END_PART = 40

/** User properties are not kept: they may be far more in memory than they were on their way. */
interface Message extends Omit<BrokerMessage, 'userProperties'> {
  /** When it came, nanoseconds since the Unix epoch. */
  time: bigint
  /** The time that it says in the property of `time_property`. */
  saysTime: string | undefined
  /** What the reader has made of it when it came. */
  arrival: unknown
  /** Of a dead letter that is read again. */
  replayed?: Replayed
}

export class MqttConnector implements Connector {
  readonly type = 'mqtt'
  readonly name: string
  readonly namespace: string
  private readonly svc: Svc
  private readonly config: ConnectorConfig
  private readonly metrics: MqttMetrics
  private readonly source: Source<Message>
  private readonly again: Replay<Message>
  private readonly rules: TopicRules
  private readonly letters: DeadLetters | undefined
  private readonly unread: SampledLog
  private format: PointFormat | undefined
  private reader: PointReader | undefined
  private client: BrokerClient | undefined
  /** A message that the format takes long to look at. */
  private looking: Promise<void> | undefined
  private over: AbortSignal | undefined
  private everConnected = false
  private reconnectTimer: (() => void) | undefined

  /** Call it in setup. @throws Error for topic patterns that are none. */
  constructor(svc: Svc, config: ConnectorConfig, metrics: MqttMetrics) {
    this.svc = svc
    this.config = config
    this.metrics = metrics
    this.name = config.name
    this.namespace = config.namespace
    this.unread = new SampledLog(svc.log, () => svc.clock.monotonic())
    this.rules = new TopicRules({ measurements: config.topic_measurement_map, tags: config.tags_from_topic, fallback: 'last level' })
    this.letters = deadLettersOf(svc.dataDir, {
      name: config.name,
      maxBytes: config.dead_letter_bytes,
      dropped: (messages) => metrics.dropped.inc({ connector: this.name }, messages),
    })
    this.source = new Source<Message>(svc, {
      ...sectionOptions(config),
      // Known from the start phase on.
      nonFinite: () => this.format?.nonFinite ?? false,
      decode: (message, batch, _, further) => {
        const { topic, payload, length, arrival, replayed } = message
        if (length > config.max_message_bytes)
          throw new SvcError('PAYLOAD_TOO_LARGE', `cannot read a message of ${length} bytes: mqtt.max_message_bytes is ${config.max_message_bytes}`)
        if (replayed !== undefined) requireWhole({ body: payload, bytes: length })
        const { measurement, tags } = this.rules.of(topic)
        return (this.reader as PointReader).read({ body: payload, time: this.timeOf(message), measurement, tags, arrival }, batch, further)
      },
      deadLetter: (message, error) => this.bury(message, error),
      pause: () => this.client?.pause(),
      resume: () => this.client?.resume(),
    })
    this.again = new Replay(config.name, this.source)
  }

  status(): SourceStatus {
    return this.source.status()
  }

  lag(): null {
    return null
  }

  /** @throws Error for a format that cannot do what is configured. */
  start(format: PointFormat | undefined): void {
    this.format = format
    this.reader = this.format?.reader({ send: (topic, body) => this.client?.publish(topic, body) })
  }

  /** Takes messages until the signal is aborted. What is not acknowledged then stays with the broker, for whoever comes next under the name. */
  async run(signal: AbortSignal): Promise<void> {
    this.over = signal
    void this.connect()
    await new Promise<void>((resolve) => {
      if (signal.aborted) resolve()
      signal.addEventListener('abort', () => resolve(), { once: true })
    })
    // A node that stops drains first, where no other waits for its connection to end: the broker knows both as one client.
    const { nodes, server, stopping } = this.svc
    if (stopping.aborted && !nodes.isShared) return
    this.reconnectTimer?.()
    await this.source.settled(server.shutdown_timeout_secs * SETTLE_PART)
    await this.client?.end(server.shutdown_timeout_secs * END_PART)
    this.client = undefined
    this.source.disconnected(undefined, 'stopped')
    this.svc.log.info({ connector: this.name }, 'this connector is left to another node')
  }

  /** Never rejects: a broker that is away is tried again. */
  private async connect(): Promise<void> {
    const { over } = this
    try {
      const options = await this.clientOptions()
      if (this.svc.stopping.aborted || over?.aborted) return
      const { connect } = load()
      const { topics, qos, status_topic } = this.config
      const session = new SessionTopics(this.svc.storage.state(this.svc.id), this.name, `${options.host}:${options.port}/${options.clientId}`)
      const former = await session.begin(topics).catch((error) => this.unknownTopics(error))
      if (this.svc.stopping.aborted || over?.aborted) return
      this.client = new BrokerClient(
        connect,
        { ...options, topics, former, qos: qos as 0 | 1 | 2, statusTopic: status_topic, maxPayload: this.config.max_message_bytes },
        {
          begun: () => void this.inOrder(() => this.reader?.interrupted?.()),
          message: (message) => this.take(message),
          connected: () => this.connected(),
          left: () => void session.keep(topics).catch((error) => this.unknownTopics(error)),
          disconnected: (error) => this.lost(error, 'reconnecting'),
          failed: (error) => this.lost(error, 'failed'),
        },
      )
    } catch (error) {
      if (over?.aborted) return
      this.lost(error as Error, 'failed')
      this.reconnectTimer = this.svc.clock.after(this.config.reconnect_ms, () => void this.connect())
    }
  }

  /** Points are more than that: they are taken all the same. */
  private unknownTopics(error: unknown): string[] {
    this.svc.log.warn({ connector: this.name }, `cannot keep which topics it is subscribed to, and so end a subscription later: ${(error as Error).message}`)
    return []
  }

  /** After the source has drained: what is not acknowledged stays with the broker. */
  async stop(): Promise<void> {
    this.reconnectTimer?.()
    await this.client?.end()
    await this.letters?.close()
  }

  private take(message: BrokerMessage): void | Promise<void> {
    this.metrics.received.inc()
    if (message.retained) {
      this.metrics.retained.inc()
      if (this.config.retained === 'ignore') return message.ack()
    }
    return this.inOrder(() => {
      const { topic, payload: body } = message
      // One that the broker has kept may be of any time.
      const redelivered = message.redelivered || message.retained
      const { userProperties, ...kept } = message
      const come = { ...kept, time: this.svc.clock.nowNanos(), saysTime: this.timeIn(userProperties) }
      const arrival = message.length > this.config.max_message_bytes ? undefined : this.reader?.arrived?.({ topic, body, redelivered })
      if (arrival instanceof Promise) return arrival.then((arrival) => this.give({ ...come, arrival }))
      this.give({ ...come, arrival })
    })
  }

  private timeIn(userProperties: BrokerMessage['userProperties']): string | undefined {
    const name = this.config.time_property
    const given = name === undefined ? undefined : userProperties?.[name]
    return Array.isArray(given) ? given[0] : given
  }

  private give(message: Message): void {
    void this.source.take({
      body: message,
      bytes: message.bytes,
      ack: message.ack,
      // The broker sends it again with the next connection only.
      nack: () => this.reconnect(),
    })
  }

  /** Messages are looked at one after the other, and the begin of a connection behind those of the one before. */
  private inOrder(work: () => void | Promise<void>): void | Promise<void> {
    const done = this.looking === undefined ? work() : this.looking.then(work)
    if (done === undefined) return
    this.looking = done
    return done.then(() => {
      if (this.looking === done) this.looking = undefined
    })
  }

  private reconnect(): void {
    if (this.svc.stopping.aborted) return
    this.client?.reconnect()
  }

  async replay(): Promise<Replayed> {
    const { letters, name } = this
    if (this.format?.ordered === true)
      throw new SvcError(
        'BAD_REQUEST',
        `cannot read the dead letters of "${name}" again: messages of format "${this.config.format}" mean something only with those before them`,
      )
    return this.again.run(async (give) => {
      const damaged = await letters?.replay(({ time, topic, body, bytes: length = body.length, pointTime }) => {
        const bytes = body.length + topic.length
        const message = { topic, payload: body as Buffer, length, bytes, retained: false, redelivered: true, ack() {}, saysTime: undefined, arrival: undefined }
        return give((replayed) => ({ ...message, time: pointTime ?? BigInt(time) * 1_000_000n, replayed }), bytes)
      })
      return damaged ?? 0
    })
  }

  /** Of points that have none. @throws INVALID_POINT for a property that is no time. */
  private timeOf({ time, saysTime }: Message): bigint {
    return saysTime === undefined ? time : messageTime(saysTime, `user property "${this.config.time_property}"`)
  }

  /** Undefined where that is what is wrong with it. */
  private readableTimeOf(message: Message): bigint | undefined {
    try {
      return this.timeOf(message)
    } catch {
      return undefined
    }
  }

  private async bury(message: Message, error: SvcError): Promise<void> {
    const { topic, payload, length, replayed } = message
    if (replayed !== undefined) replayed.failed++
    else {
      this.metrics.decodeErrors.inc()
      this.unread.warn({ connector: this.name, topic: topic.slice(0, 256), code: error.code }, `a message is with the dead letters: ${error.message}`)
    }
    await this.letters?.add({
      time: this.svc.clock.now(),
      topic,
      code: error.code,
      error: error.message,
      body: payload,
      bytes: length,
      pointTime: this.readableTimeOf(message),
    })
  }

  private connected(): void {
    if (this.everConnected) this.metrics.reconnections.inc()
    this.everConnected = true
    this.source.connected()
    this.svc.log.info({ connector: this.name }, 'connected to the broker')
  }

  private lost(error: Error | undefined, state: 'reconnecting' | 'failed'): void {
    const text = error?.message ?? 'the connection was closed'
    if (this.source.up || this.source.status().lastError !== text)
      this.svc.log.warn({ connector: this.name }, `cannot reach the broker, tried again every ${this.config.reconnect_ms / 1000} s: ${text}`)
    this.source.disconnected(new SvcError('OVERLOADED', text), state)
  }

  private async clientOptions(): Promise<IClientOptions> {
    const { config } = this
    const { protocol, host, port } = addressOf(config)
    const pem = async (file: string | undefined): Promise<Buffer | undefined> => (file === undefined ? undefined : readFile(file))
    const [ca, cert, key] = await Promise.all([pem(config.ca_cert), pem(config.client_cert), pem(config.client_key)])
    const { username, password } = await this.credentials()
    return {
      protocol,
      host,
      port,
      protocolVersion: config.protocol_version === '5' ? 5 : 4,
      // Nodes that follow one another are one client: the broker keeps for the next what the last has not acknowledged.
      clientId: config.client_id ?? (this.svc.nodes.isShared ? `svc-${config.name}` : `svc-${config.name}-${hostname()}`.slice(0, 128)),
      keepalive: config.keep_alive_secs,
      reconnectPeriod: config.reconnect_ms,
      ...(username !== undefined && { username }),
      ...(password !== undefined && { password }),
      ...(ca !== undefined && { ca }),
      ...(cert !== undefined && { cert }),
      ...(key !== undefined && { key }),
      ...(config.protocol_version === '5' && {
        // No maximumPacketSize: a broker discards what is larger and tells nobody; here it is cut, and a dead letter.
        properties: {
          sessionExpiryInterval: config.session_expiry_secs,
          receiveMaximum: config.max_in_flight,
        },
      }),
    }
  }

  private async credentials(): Promise<{ username?: string | undefined; password?: string | undefined }> {
    const { credential_file: file, username, password } = this.config
    return file === undefined ? { username, password: password?.reveal() } : credentialsIn(file)
  }
}
