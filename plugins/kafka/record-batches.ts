/**
 * The record batches of one partition in a fetch. That of the library hands the records of a batch on as arguments of one call, which fails from some 120,000
 * on, each time anew; and it holds the event loop for a whole fetch.
 */
import { nextTurn } from 'svcdb/lib/event-loop'

interface Decoder {
  readInt32(): number
  canReadBytes(length: number): boolean
  readBytes(length: number): Buffer
}

/** Modules of the library. */
export interface Parts {
  Decoder: new (bytes: Buffer) => Decoder
  decodeBatch(decoder: Decoder): Promise<{ records: unknown[] }>
  /** Of formats before that of batches. */
  decodeOld(decoder: Decoder, size: number): unknown
}

const TURN_MS = 10
const MAGIC_AT = 16
const MAGIC_BATCH = 2
/** What a batch has at least. */
const BATCH_HEAD = 49

export function batchesDecoder({ Decoder, decodeBatch, decodeOld }: Parts): (decoder: Decoder) => Promise<unknown> {
  return async (decoder) => {
    const size = decoder.readInt32()
    if (size <= 0 || !decoder.canReadBytes(size)) return []
    const bytes = decoder.readBytes(size)
    const batches = new Decoder(bytes)
    if (bytes.readInt8(MAGIC_AT) !== MAGIC_BATCH) return decodeOld(batches, size)
    const all: unknown[] = []
    let turn = performance.now()
    while (batches.canReadBytes(BATCH_HEAD)) {
      try {
        for (const record of (await decodeBatch(batches)).records) all.push(record)
      } catch (error) {
        // Brokers end a fetch at its size, within a batch.
        if ((error as Error).name === 'KafkaJSPartialMessageError') break
        throw error
      }
      if (performance.now() - turn < TURN_MS) continue
      await nextTurn()
      turn = performance.now()
    }
    return all
  }
}
