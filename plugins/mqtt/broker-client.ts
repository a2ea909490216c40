/**
 * The connection to a broker, over the package `mqtt`, which acknowledges a message before it takes the next one. Here its acknowledgements are held back
 * until the message is settled, while the next ones come: `PUBACK` of QoS 1 and `PUBREC` of QoS 2, with which a broker forgets the message.
 *
 * A message of QoS 2 is handed over when it comes, not when it is released: the store that it would wait in has no more than its identifier.
 */
import { Duplex, Readable, type Writable } from 'node:stream'
import type { IClientOptions, IPublishPacket, IStore, MqttClient, Packet } from 'mqtt'
import { PacketLimit } from './packet-limit.ts'
import { PendingAcks } from './pending-acks.ts'

export interface BrokerMessage {
  topic: string
  /** Its beginning, where it was too large. */
  payload: Buffer
  /** Of the payload as it was sent. */
  length: number
  /** Of all that came of it: topic, properties and payload. */
  bytes: number
  retained: boolean
  /** It may have come before. */
  redelivered: boolean
  /** Of version 5; one of a name that is there several times has all values. */
  userProperties?: Readonly<Record<string, string | string[]>> | undefined
  /** It is durable. */
  ack(): void
}

interface BrokerEvents {
  /** A connection is begun: all messages from here on come by it. */
  begun(): void
  /** What it returns is waited for before the next is read. Never rejects. */
  message(message: BrokerMessage): void | Promise<void>
  /** Connected and subscribed. */
  connected(): void
  /** The subscriptions to `former` are ended. */
  left(): void
  /** It is tried again, with a wait between. */
  disconnected(error: Error | undefined): void
  /** The broker has refused, and says why; it is tried again all the same. */
  failed(error: Error): void
}

interface BrokerOptions extends IClientOptions {
  topics: readonly string[]
  /** Those that the session may still have, and is to have no longer. */
  former: readonly string[]
  qos: 0 | 1 | 2
  statusTopic: string | undefined
  /** Of a payload. */
  maxPayload: number
}

const CONNECT_MS = 15_000
/** What a broker may take for the last message, and for the end of the connection. */
const END_MS = 3000
const KEEP_ALIVE_SECS = 60
const ONLINE = 'online'
const OFFLINE = 'offline'
/** Of the network; all else is said by the broker, or of certificates. */
const UNREACHABLE: ReadonlySet<string> = new Set(
  'ECONNREFUSED ECONNRESET ECONNABORTED EPIPE ETIMEDOUT ENOTFOUND EAI_AGAIN EHOSTUNREACH EHOSTDOWN ENETUNREACH ENETDOWN'.split(' '),
)
/** From here on a subscription was refused. */
const REFUSED = 128

/** @returns whether it has come to an end in time, if not to a good one. */
async function within(ms: number, work: Promise<unknown>): Promise<boolean> {
  const late = Promise.withResolvers<boolean>()
  const timer = setTimeout(() => late.resolve(false), ms)
  const done = work.then(
    () => true,
    () => true,
  )
  return Promise.race([done, late.promise]).finally(() => clearTimeout(timer))
}

type StreamBuilder = (client: MqttClient) => Stream
type Stream = MqttClient['stream']
type SendPacket = (packet: Packet, callback?: (error?: Error) => void, ...more: unknown[]) => void

export class BrokerClient {
  private readonly client: MqttClient
  private readonly send: SendPacket
  private readonly events: BrokerEvents
  private readonly options: BrokerOptions
  /** Of the last connection, which may be gone: an acknowledgement on another would be that of another message. */
  private acks: PendingAcks<Packet>
  private limit: PacketLimit
  /** Called by the message that the client is at. */
  private held: { messageId: number | undefined; acknowledge(packet: Packet): void } | undefined
  /** Why the attempt under way has failed, and whether it was the broker, or what it or we are known by. */
  private last: Error | undefined
  private refusal: Error | undefined
  private ending = false
  /** To all topics, by this process. */
  private subscribed = false
  private former: readonly string[]
  private paused: NodeJS.Timeout | undefined
  private readonly waiting: (() => void)[] = []
  /** Came first of a connection that was made without there being room; at most one of each, for the client reads no further. */
  private early: BrokerMessage[] = []
  /** Of the last message, which takes long. */
  private looking: Promise<void> | undefined

  /** @param connect of the package. */
  constructor(connect: (options: IClientOptions) => MqttClient, options: BrokerOptions, events: BrokerEvents) {
    this.options = options
    this.events = events
    const { topics: _, former, qos: __, statusTopic, maxPayload: ___, ...given } = options
    this.former = former
    this.acks = this.newAcks()
    this.limit = this.newLimit()
    this.client = connect({
      ...given,
      manualConnect: true,
      clean: false,
      resubscribe: false,
      reconnectOnConnackError: true,
      connectTimeout: CONNECT_MS,
      queueQoSZero: false,
      timerVariant: 'native',
      ...(statusTopic !== undefined && { will: { topic: statusTopic, payload: Buffer.from(OFFLINE), qos: 1 as const, retain: true } }),
      incomingStore: this.unreleased(),
    })
    const { client } = this
    const inner = client as unknown as { _sendPacket: SendPacket; streamBuilder: StreamBuilder }
    if (typeof inner._sendPacket !== 'function' || typeof inner.streamBuilder !== 'function')
      throw new Error('cannot use this version of the package mqtt: its acknowledgements cannot be held back, or its connections not be looked at')
    const build = inner.streamBuilder
    inner.streamBuilder = (given) => this.limited(build(given))
    this.send = inner._sendPacket.bind(client)
    inner._sendPacket = (packet, callback, ...more) => {
      if (packet.cmd !== 'puback' && packet.cmd !== 'pubrec') return this.send(packet, callback, ...more)
      const { held } = this
      // Any other is of a connection that is gone: on the next the identifier is another message's.
      if (held !== undefined && held.messageId === packet.messageId) {
        this.held = undefined
        held.acknowledge(packet)
      }
      callback?.()
    }
    client.handleMessage = (_, done) => this.whenThereIsRoom(done)
    client.on('message', (topic, payload, packet) => {
      if (packet.qos < 2) this.take(topic, payload, packet)
    })
    client.on('connect', ({ sessionPresent }) => void this.subscribe(sessionPresent))
    client.on('error', (error) => this.fail(error))
    client.on('close', () => this.lost())
    // The package would connect again after its end.
    client.options.manualConnect = false
    client.connect()
  }

  /** The client reads a connection by its `pipe`: what it writes there are packets of bounded length. */
  private limited(stream: Stream): Stream {
    this.acks.close()
    this.acks = this.newAcks()
    const limit = this.newLimit()
    this.limit = limit
    this.events.begun()
    stream.pipe = ((target: Writable) => {
      const write = target._write.bind(target)
      let unreadable = false
      const end = (): void => {
        unreadable = true
        stream.destroy()
      }
      target._write = (chunk: Buffer, encoding, done) => {
        if (unreadable) return done()
        let bytes: Buffer
        try {
          bytes = limit.filter(chunk)
        } catch (error) {
          this.fail(error as Error)
          end()
          return done()
        }
        if (bytes.length === 0) return done()
        // The parser would begin anew with the next chunk, wherever in a packet that is.
        this.client.once('error', end)
        write(bytes, encoding, done)
        this.client.off('error', end)
      }
      return Duplex.prototype.pipe.call(stream as Duplex, target)
    }) as typeof stream.pipe
    return stream
  }

  private newLimit(): PacketLimit {
    return new PacketLimit(this.options.maxPayload, this.options.protocolVersion === 5)
  }

  /** Reads no further. The broker is pinged all the same, and its answers are not waited for: they lie behind messages. */
  pause(): void {
    if (this.paused !== undefined || this.ending) return
    this.paused = setInterval(
      () => {
        if (!this.client.connected) return
        this.client.sendPing()
        this.client.reschedulePing(true)
      },
      ((this.options.keepalive ?? KEEP_ALIVE_SECS) * 1000) / 2,
    ).unref()
  }

  resume(): void {
    clearInterval(this.paused)
    this.paused = undefined
    while (this.early.length > 0 && this.paused === undefined) this.hand(this.early.shift() as BrokerMessage)
    this.goOnIfRoom()
  }

  private hand(message: BrokerMessage): void {
    const looking = this.events.message(message)
    if (looking === undefined) return
    this.looking = looking
    void looking.then(() => {
      if (this.looking !== looking) return
      this.looking = undefined
      this.goOnIfRoom()
    })
  }

  private goOnIfRoom(): void {
    if (this.paused === undefined && this.looking === undefined) this.goOn()
  }

  /** The client takes the next message when `done` is called. */
  private whenThereIsRoom(done: () => void): void {
    // What is left of a connection that is gone waits for nothing: it would go on in the midst of the next one.
    if ((this.paused === undefined && this.looking === undefined) || this.acks.closed) done()
    else this.waiting.push(done)
  }

  private goOn(): void {
    for (const done of this.waiting.splice(0)) done()
  }

  /** Sends a message once, and not at all without a connection. */
  publish(topic: string, payload: Uint8Array): void {
    if (!this.client.connected) return
    this.client.publish(topic, Buffer.from(payload.buffer, payload.byteOffset, payload.length), { qos: 0 }, () => {})
  }

  /** Ends the connection, so that the broker sends again what was not acknowledged; it is made anew after a while. */
  reconnect(): void {
    if (!this.ending) this.client.stream?.destroy()
  }

  /** @param ms that it may take in all. */
  async end(ms = 2 * END_MS): Promise<void> {
    this.ending = true
    this.resume()
    this.acks.flush()
    const { statusTopic } = this.options
    const { client } = this
    let answers = client.connected
    if (statusTopic !== undefined && answers) answers = await within(ms / 2, client.publishAsync(statusTopic, OFFLINE, { qos: 1, retain: true }))
    // A broker that is silent is left: it publishes the last will, and keeps what was not acknowledged.
    if (!(await within(ms / 2, client.endAsync(!answers)))) client.stream?.destroy()
  }

  private take(topic: string, payload: Buffer, packet: IPublishPacket): void {
    let ack = (): void => {}
    // Read of a connection that is gone: the broker sends it again. One of QoS 0 is not waited for where there is no room.
    if (this.acks.closed && (packet.qos > 0 || this.paused !== undefined)) return
    if (packet.qos > 0) {
      const { acks } = this
      let settle: (() => void) | undefined
      let settled = false
      // The package is about to acknowledge it.
      this.held = {
        messageId: packet.messageId,
        acknowledge: (reply) => {
          settle = acks.add(reply)
          if (settled) settle()
        },
      }
      ack = () => {
        settled = true
        settle?.()
      }
    }
    const length = this.limit.payloadOf(packet.length ?? 0, payload.length)
    const { userProperties } = packet.properties ?? {}
    const bytes = packet.length ?? topic.length + payload.length
    const message = { topic, payload, length, bytes, retained: packet.retain, redelivered: packet.dup, userProperties, ack }
    if (this.paused === undefined) this.hand(message)
    else this.early.push(message)
  }

  /** @param resumed the broker has kept the session: its answer to the subscription may lie behind messages that there is no room for. */
  private async subscribe(resumed: boolean): Promise<void> {
    const { topics, qos, statusTopic } = this.options
    this.refusal = undefined
    const ready = resumed && this.subscribed
    if (ready) this.events.connected()
    void this.unsubscribe()
    try {
      await this.client.subscribeAsync([...topics], { qos }).catch((error: Error & { packet?: { granted?: unknown[] } }) => {
        const refused = topics.filter((_, i) => Number(error.packet?.granted?.[i]) >= REFUSED)
        if (refused.length === 0) throw error
        throw new Error(`the broker refuses the subscription to ${refused.map((topic) => JSON.stringify(topic)).join(', ')}`, { cause: error })
      })
      if (statusTopic !== undefined) await this.client.publishAsync(statusTopic, ONLINE, { qos: 1, retain: true })
      this.subscribed = true
      if (!ready) this.events.connected()
    } catch (error) {
      this.fail(error as Error)
      this.client.stream?.destroy()
    }
  }

  /** What the broker says counts until the next attempt, which comes after the connection is closed. */
  private fail(error: Error): void {
    const unreachable = UNREACHABLE.has((error as NodeJS.ErrnoException).code ?? '') || /timeout/i.test(error.message)
    this.refusal = unreachable ? undefined : error
    this.last = error
  }

  private lost(): void {
    this.acks.close()
    this.held = undefined
    this.early = []
    this.goOn()
    const { refusal, last } = this
    this.last = undefined
    if (this.ending) return
    if (refusal === undefined) this.events.disconnected(last)
    else this.events.failed(refusal)
  }

  /** Never rejects: it is tried again with the next connection. */
  private async unsubscribe(): Promise<void> {
    if (this.former.length === 0) return
    try {
      await this.client.unsubscribeAsync([...this.former])
      this.former = []
      this.events.left()
    } catch {
      // The connection is gone, and says so itself.
    }
  }

  /** Messages of QoS 2 that have come and are not released. */
  private unreleased(): IStore {
    const known = new Map<number, Packet>()
    const store = {
      put(packet: IPublishPacket, done?: () => void) {
        client.take(packet.topic, packet.payload as Buffer, packet)
        // Nobody asks for more than the identifier, and a broker that never releases them may have given each a topic of 64 KiB.
        known.set(packet.messageId as number, {
          cmd: 'publish',
          topic: '',
          payload: '',
          qos: 2,
          retain: false,
          dup: false,
          messageId: packet.messageId as number,
        })
        client.whenThereIsRoom(() => done?.())
        return store
      },
      get({ messageId = 0 }: Packet, done: (error?: Error, packet?: Packet) => void) {
        const packet = known.get(messageId)
        if (packet === undefined) done(new Error('it is not known'))
        else done(undefined, packet)
        return store
      },
      del({ messageId = 0 }: Packet, done: (error?: Error) => void) {
        known.delete(messageId)
        done()
        return store
      },
      close: (done: () => void) => done(),
      createStream: () => Readable.from([]),
    }
    const client = this
    return store as unknown as IStore
  }

  private newAcks(): PendingAcks<Packet> {
    return new PendingAcks((packets) => {
      const { stream } = this.client
      stream.cork()
      for (const packet of packets) this.send(packet)
      stream.uncork()
    })
  }
}
