/** What one fetch may come to in memory, of whichever format its records are. */
import { Turn } from 'svcdb/lib/event-loop'
import { isTooLarge } from './codecs.ts'

/** A fetch may decompress to that, or to so many times what it has, and the last batch that was begun: a megabyte may hold three hundred batches of 256 MiB. */
const FETCH_BYTES = 64 * 1024 * 1024
const FETCH_RATIO = 16
/** In memory, beside its key and value. */
export const RECORD_BYTES = 256
/** Of one batch: forty kilobytes may be four million that have nothing in them. */
export const MAX_RECORDS = 1_000_000

/** @returns null where nothing is compressed. */
export type CodecOf = (attributes: number) => { decompress(bytes: Buffer): Promise<Buffer> } | null

/** Of one fetch: `left` are bytes that may still be decompressed; once there are none, the next fetch brings what is behind. */
export interface Fetch {
  left: number
  readonly codecOf: CodecOf
  readonly turn: Turn
}

export function newFetch(bytes: number, codecOf: CodecOf): Fetch {
  return { left: Math.max(FETCH_BYTES, FETCH_RATIO * bytes), codecOf, turn: new Turn() }
}

/** Why records are passed over. */
export class TooMuch {
  readonly why: string

  constructor(why: string) {
    this.why = why
  }
}

export const tooManyRecords = (): TooMuch => new TooMuch(`a batch may have ${MAX_RECORDS}; have the producer send smaller ones`)

/** What the attributes say of `bytes`. @throws Error for bytes that do not decompress. */
export async function decompressed(bytes: Buffer, attributes: number, { codecOf }: Fetch): Promise<Buffer | TooMuch> {
  const codec = codecOf(attributes)
  if (codec === null) return bytes
  try {
    return await codec.decompress(bytes)
  } catch (error) {
    if (!isTooLarge(error)) throw error
    return new TooMuch((error as Error).message)
  }
}

export const corrupt = (): Error => new Error('cannot read a batch of records: it is corrupt')
