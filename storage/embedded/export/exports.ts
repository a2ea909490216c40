/** Exports as the main thread sees them. The work is done beside the engine (export.ts). */
import { basename, join } from 'node:path'
import type { ExportRequest, ExportResult, JobOptions, RunningJob } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { moduleUrl } from 'svcdb/lib/modules'
import { ExportFiles } from '../../common/export/export-files.ts'
import type { FileSystem } from '../../common/log/file-system.ts'
import { resolved, within } from '../backup/disk.ts'
import { paths } from '../paths.ts'
import type { WorkerConfig } from '../threads/messages.ts'
import type { ExportTask } from './export.ts'

const JOB = moduleUrl('./export-job.ts', import.meta.url)

export class Exports {
  private readonly dataDir: string
  private readonly fs: FileSystem
  private readonly files: ExportFiles
  private readonly config: WorkerConfig
  private readonly run: (module: URL, args: ExportTask, options?: JobOptions) => RunningJob<ExportResult>
  private readonly flush: () => Promise<void>

  /** @param flush resolves when everything acknowledged is in segments. */
  constructor(
    dataDir: string,
    config: WorkerConfig,
    run: (module: URL, args: ExportTask, options?: JobOptions) => RunningJob<ExportResult>,
    fs: FileSystem,
    flush: () => Promise<void>,
  ) {
    this.dataDir = dataDir
    this.fs = fs
    this.files = new ExportFiles(paths(dataDir).exports, fs)
    this.flush = flush
    this.config = config
    this.run = run
  }

  /** @throws CONFLICT for a file that exists, INVALID_REQUEST for one in a folder of the database, which a start would remove. */
  async export(request: ExportRequest, options?: JobOptions): Promise<ExportResult> {
    const { compression, zstdLevel, memoryLimitBytes, tempDir, encryption } = this.config
    return this.files.write(request.path, async ({ path, unfinished, number }) => {
      await this.refuseOwn(path)
      const task: ExportTask = {
        request: { ...request, path },
        unfinished,
        scratch: join(tempDir, `export-${number}.parquet`),
        encrypted: Object.keys(encryption?.columns ?? {}),
        config: { compression, zstdLevel, memoryLimitBytes },
      }
      await this.flush()
      return this.run(JOB, task, options).result
    })
  }

  /** @param path absolute. */
  private async refuseOwn(path: string): Promise<void> {
    const { wal, catalog, segments, temp, archiveCache } = paths(this.dataDir)
    const file = await resolved(path, this.fs.promises)
    for (const folder of [wal, catalog, segments, temp, archiveCache]) {
      if (!within(await resolved(folder, this.fs.promises), file)) continue
      const cause = `it would lie in "${folder}", where the database keeps its own files and removes others; set export.directory to a folder of its own`
      throw new SvcError('INVALID_REQUEST', `cannot export to "${basename(file)}": ${cause}`)
    }
  }
}
