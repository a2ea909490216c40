/** What the sections of connectors have in common. */
import type { SourceOptions } from './types.ts'

const MAX_BATCH_BYTES = 4 * 1024 * 1024

/** Keys of a connector's section. */
export interface SourceSection {
  name: string
  namespace: string
  backfill: boolean
  /** Messages that are taken and not settled. */
  max_in_flight: number
  /** Bytes of those. */
  max_in_flight_bytes: number
}

/** Options of a source as its section has them: what is in flight is written together, up to 4 MiB at a time. */
export function sectionOptions({ name, namespace, backfill, max_in_flight, max_in_flight_bytes }: SourceSection) {
  return {
    name,
    namespace,
    backfill,
    maxMessages: max_in_flight,
    maxBytes: max_in_flight_bytes,
    maxBatchMessages: max_in_flight,
    maxBatchBytes: Math.min(max_in_flight_bytes, MAX_BATCH_BYTES),
  } satisfies Partial<SourceOptions>
}
