/** Which series a delete means: selected where the index of tags is, beside the main thread. */
import type { Job, Matcher } from 'svcdb'
import type { EngineReader } from '../read/reader.ts'

export interface SelectionRequest {
  measurement: number
  matchers: readonly Matcher[]
}

/** Both in shared memory, so that no thread copies them. */
export interface Selection {
  /** Ascending. */
  series: Int32Array
  /** As the log has them, see change-record.ts. */
  encoded: Uint8Array
}

const select: Job<SelectionRequest, Selection> = async (reader, { measurement, matchers }) => (reader as EngineReader).select(measurement, matchers)

export default select
