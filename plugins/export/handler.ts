/** POST /api/v1/export/parquet: limits, metrics, and the end of an export whose caller has left. */
import { join, resolve } from 'node:path'
import type { FastifyReply } from 'fastify'
import { SvcError } from '../../kernel/errors.ts'
import type { HttpRequest, Svc } from '../../kernel/plugin.ts'
import type { ExportConfig } from './config.ts'
import { type ExportMetrics, exportMetrics } from './metrics.ts'
import { defaultName, fileName, parseExport } from './request.ts'

interface Answer {
  rows_written: number
  bytes_written: number
  truncated: boolean
  path: string
}

export class ExportHandler {
  private readonly svc: Svc
  private readonly config: ExportConfig
  private readonly metrics: ExportMetrics
  private running = 0

  constructor(svc: Svc, config: ExportConfig) {
    this.svc = svc
    this.config = config
    this.metrics = exportMetrics(svc.metrics, () => this.running)
  }

  async export(request: HttpRequest, reply: FastifyReply): Promise<Answer> {
    const { svc, config, metrics } = this
    const { dataNamespace: namespace } = svc.context(request)
    const plan = parseExport(request.body as Uint8Array)
    const name = plan.outputPath === undefined ? defaultName(plan.measurement, svc.clock.now()) : fileName(plan.outputPath)
    if (this.running >= config.max_concurrent) {
      throw new SvcError(
        'RATE_LIMITED',
        `cannot start an export: ${this.running} are under way, as many as [export] max_concurrent allows; retry when one of them has ended`,
      )
    }
    const abort = new AbortController()
    const left = (): void => abort.abort()
    const { socket } = request.raw
    socket.once('close', left)
    reply.raw.once('close', () => socket.off('close', left))
    this.running++
    try {
      const result = await svc.storage.export!(
        {
          namespace,
          measurement: plan.measurement,
          ...(plan.start === undefined ? {} : { start: plan.start }),
          ...(plan.end === undefined ? {} : { end: plan.end }),
          // Each namespace has a folder of its own: its names are nobody else's.
          path: join(config.directory === '' ? '' : resolve(config.directory), namespace, name),
          maxBytes: config.max_bytes,
        },
        { signal: abort.signal },
      )
      metrics.rows.inc(result.rows)
      metrics.bytes.inc(result.bytes)
      if (result.truncated) metrics.truncated.inc()
      metrics.exports.inc({ result: 'done' })
      return { rows_written: result.rows, bytes_written: result.bytes, truncated: result.truncated, path: result.path }
    } catch (error) {
      metrics.exports.inc({ result: abort.signal.aborted ? 'cancelled' : 'failed' })
      throw error
    } finally {
      this.running--
    }
  }
}
