/** A Kafka broker of one topic, as far as one idempotent producer needs it: it keeps the numbers that changes of a sink have, and counts the gaps that it is told. */
import { API, array, int16, int32, int64, type RawBroker, type Request, rawBroker, TOPIC, text } from '../../plugins/kafka/testing-raw-broker.ts'

const PRODUCE = 0
const INIT_PRODUCER = 22
const SPOKEN: readonly (readonly [api: number, version: number])[] = [
  [PRODUCE, 3],
  [API.metadata, 1],
  [API.versions, 0],
  [INIT_PRODUCER, 0],
]

export class MiniBroker {
  /** It does not answer. */
  away = false
  readonly texts = new Set<number>()
  gaps = 0
  private readonly raw: RawBroker
  private offset = 0n

  private constructor(raw: RawBroker) {
    this.raw = raw
  }

  /** @param closing what is called in the end. */
  static async open(closing: (() => void)[]): Promise<MiniBroker> {
    let broker: MiniBroker | undefined
    const raw = await rawBroker({ teardown: (close: () => void) => void closing.push(close) }, (request) => broker?.answer(request))
    broker = new MiniBroker(raw)
    return broker
  }

  get port(): number {
    return this.raw.port
  }

  private answer({ api, body, socket }: Request): Buffer | null | undefined {
    if (this.away) {
      socket.destroy()
      return null
    }
    switch (api) {
      case API.versions:
        return Buffer.concat([int16(0), array(...SPOKEN.map(([id, version]) => Buffer.concat([int16(id), int16(version), int16(version)])))])
      case INIT_PRODUCER:
        return Buffer.concat([int32(0), int16(0), int64(7n), int16(0)])
      case PRODUCE: {
        // Records are not compressed: what they say stands there as it is.
        const said = body.toString('latin1')
        for (const [, n] of said.matchAll(/"n":\{"I64":(\d+)\}/g)) this.texts.add(Number(n))
        this.gaps += said.split('{"Gap":').length - 1
        const partition = Buffer.concat([int32(0), int16(0), int64(this.offset++), int64(-1n)])
        return Buffer.concat([array(Buffer.concat([text(TOPIC), array(partition)])), int32(0)])
      }
      default:
        return undefined
    }
  }
}
