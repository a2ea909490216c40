/**
 * Sessions of kafkajs: idempotent producers. What it tries again within a session has the numbers that it had before, so that brokers know it; what becomes
 * of a send that has failed is not known, and its numbers would be given to other records: the session is over then.
 */
import { connection, isOfRecords, rootOf, stateOf, within } from '../kafkajs-client.ts'
import { type Compression, SendError, type SinkLibrary, type SinkProducer, type SinkProducerOptions, type SinkRecord } from './producer.ts'

/** Within a session; what fails longer is tried again with the next. */
const RETRIES = 3
const STOP_MS = 5000
/** As the library numbers them. */
const CODES: Record<Compression, number> = { none: 0, gzip: 1, snappy: 2, zstd: 4 }

export const kafkajsSink: SinkLibrary = {
  async open(options) {
    try {
      return await open(options)
    } catch (error) {
      throw failureOf(error as Error)
    }
  },
}

async function open(options: SinkProducerOptions): Promise<SinkProducer> {
  const kafka = await connection({ access: options.access, log: (_, text) => options.log(text) })
  const producer = kafka.producer({
    idempotent: true,
    maxInFlightRequests: 1,
    allowAutoTopicCreation: true,
    retry: { retries: RETRIES, initialRetryTime: 200 },
  })
  const close = (): Promise<void> => within(STOP_MS, producer.disconnect())
  try {
    await producer.connect()
  } catch (error) {
    await close()
    throw error
  }
  return {
    close,
    async send(records) {
      try {
        await producer.sendBatch({ acks: -1, timeout: options.timeoutMs, compression: CODES[options.compression], topicMessages: byTopic(records) })
      } catch (error) {
        throw failureOf(error as Error)
      }
    },
  }
}

function byTopic(records: readonly SinkRecord[]): { topic: string; messages: SinkRecord[] }[] {
  const topics = new Map<string, SinkRecord[]>()
  for (const record of records) {
    const known = topics.get(record.topic)
    if (known === undefined) topics.set(record.topic, [record])
    else known.push(record)
  }
  return [...topics].map(([topic, messages]) => ({ topic, messages }))
}

function failureOf(error: Error): SendError {
  const root = rootOf(error)
  if (isOfRecords(root)) return new SendError('record', root.message, { cause: error })
  return new SendError(stateOf(error) === 'failed' ? 'refused' : 'away', root.message, { cause: error })
}
