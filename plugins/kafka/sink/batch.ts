/** What is sent at once: records in the order of their changes, and the position behind them. */
import type { SinkPosition } from './position.ts'
import type { SinkRecord } from './producer.ts'

/** The client library makes a message of each in one turn of the event loop. */
const MAX_RECORDS = 500
/** Of a record beside its value, as brokers count it. */
const OVERHEAD = 128

export class Batch {
  readonly records: SinkRecord[] = []
  /** Changes that are dead letters. */
  readonly lost: SinkRecord[] = []
  bytes = 0
  /** When its first change came; of the clock that never goes back. */
  since: number | undefined
  private readonly maxBytes: number
  /** Behind all that is in it. */
  end: SinkPosition

  constructor(begin: SinkPosition, maxBytes: number) {
    this.end = begin
    this.maxBytes = maxBytes
  }

  add(records: readonly SinkRecord[]): void {
    for (const record of records) {
      this.records.push(record)
      this.bytes += sizeOf(record)
    }
  }

  get full(): boolean {
    return this.records.length >= MAX_RECORDS || this.bytes >= this.maxBytes || this.lost.length >= MAX_RECORDS
  }

  get empty(): boolean {
    return this.records.length === 0 && this.lost.length === 0
  }
}

export const sizeOf = ({ key, value }: SinkRecord): number => key.length + value.length + OVERHEAD

/** Records in runs that brokers take at once. */
export function* runsOf(records: readonly SinkRecord[], maxBytes: number): Generator<SinkRecord[]> {
  let run: SinkRecord[] = []
  let bytes = 0
  for (const record of records) {
    const size = sizeOf(record)
    if (run.length > 0 && (bytes + size > maxBytes || run.length >= MAX_RECORDS)) {
      yield run
      run = []
      bytes = 0
    }
    run.push(record)
    bytes += size
  }
  if (run.length > 0) yield run
}
