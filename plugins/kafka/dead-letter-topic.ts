/** Dead letters in a topic: how one is written, and how all are read again. A group of their own has the place up to which they were. */
import { SvcError } from 'svcdb/lib/errors'
import type { ConsumerClient, ConsumerOptions, Fetched, KafkaLibrary, KafkaRecord, OutgoingRecord } from './client.ts'

/** Without a record for that long what is left are no records: markers of transactions, or what was compacted away. */
const IDLE_MS = 15_000

interface TopicLetter {
  /** `topic/partition@offset` of the record that could not be stored. */
  place: string
  /** Of points that have none, nanoseconds since the Unix epoch; undefined where it could not be read. */
  time: bigint | undefined
  code: string
  error: string
}

export function recordOf({ place, time, code, error }: TopicLetter, { key, value }: Pick<KafkaRecord, 'key' | 'value'>): OutgoingRecord {
  const headers = { 'svc-source': place, 'svc-code': code, 'svc-error': error.slice(0, 1024), ...(time !== undefined && { 'svc-time': String(time) }) }
  return { key, value, headers }
}

/** Of a record of the topic; undefined for one that somebody else has put there. */
export function letterOf({ headers }: KafkaRecord): Pick<TopicLetter, 'place' | 'time'> | undefined {
  const [place, time] = [headers['svc-source'], headers['svc-time']]
  if (place === undefined) return undefined
  return { place: String(place), time: time !== undefined && /^\d{1,19}$/.test(String(time)) ? BigInt(String(time)) : undefined }
}

interface TopicReplay {
  library: KafkaLibrary
  /** Of the group that remembers what was read. */
  options: ConsumerOptions
  /** Calls back unless it is cancelled. */
  after(ms: number, callback: () => void): () => void
  /** Resolves when the record is durable, or a dead letter anew. */
  give(record: KafkaRecord): Promise<void>
}

/** Gives the records that are in the topic when it begins, and that no replay before has had. @throws SvcError OVERLOADED when brokers are away, and what `give` says. */
export async function replayTopic({ library, options, after, give }: TopicReplay): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  /** Where this member is, and where it ends, by partition. */
  const places = new Map<number, { at: number; end: number }>()
  let known = false
  let cancel = (): void => {}
  const moved = (): void => {
    cancel()
    if (known && [...places.values()].every(({ at, end }) => at >= end)) resolve()
    else cancel = after(IDLE_MS, resolve)
  }
  const failed = (error: unknown): void => reject(error)
  const fetched = async ({ partition, generation, topic, records, behind, ending }: Fetched): Promise<number> => {
    const place = places.get(partition)
    const first = Number(records[0]?.offset ?? behind)
    // Not asked for the end yet.
    if (place === undefined) return first
    const due = records.filter(({ offset }) => Number(offset) < place.end)
    try {
      await Promise.all(due.map((record) => give(record)))
      const next = due.length < records.length ? place.end : behind
      if (ending.aborted) return first
      if (next > place.at) await client.commit(generation, [{ topic, partition, offset: next }])
      place.at = next
      moved()
      return next
    } catch (error) {
      failed(error instanceof SvcError ? error : unreachable(error as Error))
      return first
    }
  }
  const joined = async (): Promise<void> => {
    try {
      const lags = await client.lags()
      const before = new Map(places)
      places.clear()
      for (const { partition, offset, end } of lags) places.set(partition, { at: offset, end: before.get(partition)?.end ?? end })
      known = true
      moved()
    } catch (error) {
      failed(unreachable(error as Error))
    }
  }
  const client: ConsumerClient = library.consumer(options, {
    fetched,
    joined: () => void joined(),
    lost: (error) => failed(unreachable(error)),
  })
  try {
    await client.start()
    await promise
  } finally {
    cancel()
    await client.stop()
  }
}

const unreachable = (error: Error): SvcError =>
  new SvcError('OVERLOADED', `cannot read the topic of dead letters: ${error.message}; what was read is stored, try again for the rest`, { cause: error })
