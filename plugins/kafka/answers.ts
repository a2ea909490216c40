/**
 * Answers of brokers, before the library reads them. It gathers as many bytes as an answer says it has, up to 2 GiB; what is no answer has it throw out of an event
 * of the socket, which would end the server; and lengths within an answer that are negative have it read the same bytes again and again.
 */
import type { Socket } from 'node:net'

/** Of Kafka: each answer stands behind its length. */
const LENGTH_BYTES = 4

/** Looks at the lengths of answers only, as they come. */
class AnswerLimit {
  private readonly most: number
  private readonly head = Buffer.alloc(LENGTH_BYTES)
  private known = 0
  private left = 0

  /** @param most bytes of an answer. */
  constructor(most: number) {
    this.most = most
  }

  /** @throws Error for an answer that is none, or too large. */
  check(chunk: Buffer): void {
    for (let at = 0; at < chunk.length; ) {
      if (this.left > 0) {
        const taken = Math.min(this.left, chunk.length - at)
        this.left -= taken
        at += taken
        continue
      }
      this.head[this.known++] = chunk[at++]
      if (this.known < LENGTH_BYTES) continue
      this.known = 0
      this.left = this.head.readInt32BE()
      if (this.left < 0) throw new Error(`cannot read what the broker answers: it says that an answer has ${this.left} bytes; is there a Kafka broker?`)
      if (this.left > this.most)
        throw new Error(
          `cannot take an answer of ${this.left} bytes from the broker: ${this.most} are expected at most; raise kafka.max_response_bytes if there is a Kafka broker`,
        )
    }
  }
}

export type SocketFactory = (options: { host: string; port: number; ssl: object; onConnect(): void }) => Socket

/** Sockets of `create` whose bytes the library gets as long as they are answers; then they end with an error, as if the connection were broken. */
export function limitedSockets(create: SocketFactory, most: number): SocketFactory {
  return (options) => {
    const socket = create(options)
    const limit = new AnswerLimit(most)
    const on = socket.on.bind(socket) as (event: string, listener: (...given: never[]) => void) => Socket
    const guarded = (listener: (bytes: Buffer) => void) => (bytes: Buffer) => {
      try {
        limit.check(bytes)
        listener(bytes)
      } catch (error) {
        socket.destroy(Object.assign(error as Error, { code: 'ERR_KAFKA_ANSWER' }))
      }
    }
    socket.on = ((event: string, listener: (...given: never[]) => void) =>
      on(event, event === 'data' ? (guarded(listener as never) as never) : listener)) as typeof socket.on
    return socket
  }
}

/** Of one cluster. Each has a turn of its own, several times a second, and a connection where it leads a partition. */
const MOST_BROKERS = 1000

type Metadata = (...topics: unknown[]) => Promise<{ brokers: readonly unknown[] }>

/** A cluster has no more brokers than it may. */
export function fewBrokers({ prototype }: { prototype: { metadata: Metadata } }): void {
  const { metadata } = prototype
  prototype.metadata = async function (...topics) {
    const answer = await metadata.apply(this, topics)
    const { length } = answer.brokers
    if (length > MOST_BROKERS)
      throw new Error(`cannot use the cluster: it has ${length} brokers, and ${MOST_BROKERS} at most are connected to; is there a Kafka broker?`)
    return answer
  }
}

interface Decoder {
  buffer: Buffer
  offset: number
}
type Read = (this: Decoder, ...given: unknown[]) => unknown

/** Each value of an answer lies within it. */
export function strict({ prototype }: { prototype: object }): void {
  const methods = prototype as Record<string, Read>
  for (const name of Object.getOwnPropertyNames(prototype)) {
    if (!/^read(?!All)/.test(name) || /Array/.test(name)) continue
    const read = methods[name]
    methods[name] = function (...given) {
      const { offset } = this
      let value: unknown
      try {
        value = read.apply(this, given)
      } catch (error) {
        throw error instanceof RangeError ? wrong() : error
      }
      if (this.offset < offset || this.offset > this.buffer.length) throw wrong()
      return value
    }
  }
}

const wrong = (): Error => new Error('cannot read what the broker answers: a length in it is wrong; is there a Kafka broker?')
