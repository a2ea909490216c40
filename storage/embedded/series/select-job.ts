/** Which series a delete means: selected where the index of tags is, beside the main thread. */
import type { Job } from 'svcdb'
import type { EngineReader } from '../read/reader.ts'
import type { Selection, SelectionRequest } from './selection.ts'

const select: Job<SelectionRequest, Selection> = async (reader, { measurement, matchers }) => (reader as EngineReader).select(measurement, matchers)

export default select
