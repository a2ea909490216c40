/**
 * Exports as the main thread sees them: where the file goes, that no two write the same one, and that nothing of an export that a crash interrupted stays
 * for good. The work is done beside the engine (export.ts).
 */
import { basename, dirname, join, resolve } from 'node:path'
import type { ExportRequest, ExportResult, JobOptions, RunningJob } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { moduleUrl } from 'svcdb/lib/modules'
import type { FileSystem } from '../../common/log/file-system.ts'
import { paths } from '../paths.ts'
import type { WorkerConfig } from '../threads/messages.ts'
import type { ExportTask } from './export.ts'

const JOB = moduleUrl('./export-job.ts', import.meta.url)
/** How the name of a file that is being written ends. */
const UNFINISHED = /\.parquet\.\d+\.unfinished$/

export class Exports {
  private readonly directory: string
  private readonly config: WorkerConfig
  private readonly run: (module: URL, args: ExportTask, options?: JobOptions) => RunningJob<ExportResult>
  private readonly writing = new Set<string>()
  private readonly swept = new Set<string>()
  private next = 0
  private readonly fs: FileSystem
  private readonly flush: () => Promise<void>

  /** @param flush resolves when everything acknowledged is in segments. */
  constructor(
    dataDir: string,
    config: WorkerConfig,
    run: (module: URL, args: ExportTask, options?: JobOptions) => RunningJob<ExportResult>,
    fs: FileSystem,
    flush: () => Promise<void>,
  ) {
    this.fs = fs
    this.flush = flush
    this.directory = paths(dataDir).exports
    this.config = config
    this.run = run
  }

  /** @throws CONFLICT for a file that exists. */
  async export(request: ExportRequest, options?: JobOptions): Promise<ExportResult> {
    const path = resolve(this.directory, request.path)
    if (this.writing.has(path) || this.fs.existsSync(path))
      throw new SvcError('CONFLICT', `cannot export to "${basename(path)}": the file exists or is being written; choose another name or remove it`)
    this.sweep(dirname(path))
    this.writing.add(path)
    const { compression, zstdLevel, memoryLimitBytes, tempDir, encryption } = this.config
    const id = this.next++
    const task: ExportTask = {
      request: { ...request, path },
      unfinished: `${path}.${id}.unfinished`,
      scratch: join(tempDir, `export-${id}.parquet`),
      encrypted: Object.keys(encryption?.columns ?? {}),
      config: { compression, zstdLevel, memoryLimitBytes },
    }
    try {
      await this.flush()
      return await this.run(JOB, task, options).result
    } finally {
      this.writing.delete(path)
    }
  }

  /** What a crash left behind, before the first export into a directory: none is being written there yet. */
  private sweep(directory: string): void {
    if (this.swept.has(directory)) return
    this.swept.add(directory)
    if (!this.fs.existsSync(directory)) return
    for (const name of this.fs.readdirSync(directory)) if (UNFINISHED.test(name)) this.fs.rmSync(join(directory, name))
  }
}
