/** Exports of this node: where their files go, and their ends. */
import type { ExportRequest, ExportResult, JobOptions } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { ExportFiles } from '../../common/export/export-files.ts'
import { Deadline } from '../../common/job.ts'
import { realFileSystem } from '../../common/log/file-system.ts'
import type { Life } from '../catalog.ts'
import { type ExportContext, exportMeasurement } from './export.ts'

interface ExportSurroundings extends ExportContext {
  /** Awaited before the first question: what was written before is seen. */
  enter(namespace: string): Promise<void>
  /** @throws NOT_FOUND */
  find(namespace: string, measurement: string): Life
}

export class Exports {
  /** Nothing is kept on a node, so that there is no folder of its own. */
  private readonly files = new ExportFiles(undefined, realFileSystem)
  private readonly around: ExportSurroundings
  private readonly running = new Map<Deadline, Promise<ExportResult>>()

  constructor(around: ExportSurroundings) {
    this.around = around
  }

  /** @throws NOT_FOUND, INVALID_REQUEST for a relative path, CONFLICT, STORAGE_FULL, what a read throws, and what ends it. */
  async export(request: ExportRequest, options: JobOptions): Promise<ExportResult> {
    const { around } = this
    const deadline = new Deadline(options)
    const { signal } = deadline
    const result = this.files.write(request.path, async (paths) => {
      await around.enter(request.namespace)
      const life = around.find(request.namespace, request.measurement)
      signal.throwIfAborted()
      return exportMeasurement(around, life, request, paths, { signal, timeoutMs: options.timeoutMs ?? 0 })
    })
    this.running.set(deadline, result)
    try {
      return await result
    } finally {
      this.running.delete(deadline)
      deadline.clear()
    }
  }

  /** Ends those under way. */
  async close(): Promise<void> {
    const results = [...this.running.values()]
    for (const deadline of this.running.keys()) deadline.cancel(new SvcError('DATABASE_CLOSED', 'cannot export: the database is closed'))
    await Promise.allSettled(results)
  }
}
