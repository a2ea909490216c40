/** An export, beside the engine. */
import type { ExportResult, Job } from 'svcdb'
import type { EngineReader } from '../read/reader.ts'
import type { ExportTask } from './export.ts'

const exporting: Job<ExportTask, ExportResult> = async (reader, task) => (reader as EngineReader).export(task)

export default exporting
