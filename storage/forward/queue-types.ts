/** What a queue is given, and what it gives to senders. */

import type { QueueRecord, RecordHead } from './record.ts'
import type { QueuePosition, RecordCount } from './sender-positions.ts'

export interface QueueBounds {
  maxBytes: number
  /** Milliseconds; 0 = none. */
  maxAgeMs: number
  whenFull: 'refuse' | 'drop_oldest'
  fileBytes: number
}

export type DropReason = 'size' | 'age' | 'damaged'

export interface QueueEvents {
  /** Points that no sender will have. `records` may be 0 where it is not known. */
  dropped(reason: DropReason, records: number, points: number): void
  /** Bytes that could not be read. */
  damaged(file: string, at: number, bytes: number, cause: string): void
  /** A problem that mends itself, such as a file that could not be removed. */
  warning(error: unknown, text: string): void
  fsyncs(): void
  written(bytes: number): void
}

export interface ReadRecord {
  record: QueueRecord
  /** Of its payload. */
  checksum: number
  bytes: number
  /** Behind it. */
  next: QueuePosition
  /** Records before it, since the place that was read from, that were passed over. */
  passed: RecordCount
}

export interface ReadRecords {
  records: ReadRecord[]
  /** To go on from; may lie further on than the last record. */
  next: QueuePosition
  /** Records up to `next` that were passed over; they are of its file. */
  passed: RecordCount
}

/** What a reader does with a record: takes it, passes it over, or reads no further than to what is before it, which is never the first. */
export type Choose = (head: RecordHead) => 'take' | 'pass' | 'end'
