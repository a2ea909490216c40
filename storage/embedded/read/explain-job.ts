/** How a scan would be answered, for the main thread. */
import type { Job, ScanPlan, ScanRequest } from 'svcdb'
import type { EngineReader } from './reader.ts'

const explain: Job<ScanRequest, ScanPlan> = async (reader, request) => (reader as EngineReader).explain(request)

export default explain
