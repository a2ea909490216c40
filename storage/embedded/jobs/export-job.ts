/** An export, beside the engine. */
import type { ExportResult, Job } from 'svcdb'
import type { ExportTask } from '../worker/export.ts'
import type { EngineReader } from '../worker/reader.ts'

const exporting: Job<ExportTask, ExportResult> = async (reader, task) => (reader as EngineReader).export(task)

export default exporting
