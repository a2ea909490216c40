/** POST /api/v1/export/parquet: limits, metrics, and the end of an export whose caller has left. */
import { join } from 'node:path'
import type { FastifyReply } from 'fastify'
import { administersServer, type HttpRequest, type Svc } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import type { ExportConfig } from './config.ts'
import type { ExportFolders } from './folders.ts'
import { type ExportMetrics, exportMetrics } from './metrics.ts'
import { defaultName, fileName, parseExport } from './request.ts'

interface Answer {
  rows_written: number
  bytes_written: number
  truncated: boolean
  path: string
}

interface Running {
  namespace: string
  abort: AbortController
  ended: Promise<void>
  /** Bytes that its file may have at most, where the namespace has a quota. */
  reserved: number
}

export class ExportHandler {
  private readonly svc: Svc
  private readonly config: ExportConfig
  private readonly folders: ExportFolders
  private readonly metrics: ExportMetrics
  private readonly running = new Set<Running>()

  constructor(svc: Svc, config: ExportConfig, folders: ExportFolders) {
    this.svc = svc
    this.config = config
    this.folders = folders
    this.metrics = exportMetrics(svc.metrics, () => this.running.size)
  }

  /** Ends the exports of a namespace that is going, and removes its files. */
  async forget(namespace: string): Promise<void> {
    const own = [...this.running].filter((each) => each.namespace === namespace)
    for (const { abort } of own) abort.abort()
    await Promise.all(own.map(({ ended }) => ended))
    await this.folders.remove(namespace)
  }

  async export(request: HttpRequest, reply: FastifyReply): Promise<Answer> {
    const { svc, metrics } = this
    const context = svc.context(request)
    const { dataNamespace: namespace } = context
    const plan = parseExport(request.body as Uint8Array)
    const name = plan.outputPath === undefined ? defaultName(plan.measurement, svc.clock.now()) : fileName(plan.outputPath)
    this.requireTurn(namespace)
    const abort = new AbortController()
    const { promise: ended, resolve: end } = Promise.withResolvers<void>()
    const own: Running = { namespace, abort, ended, reserved: 0 }
    const left = (): void => abort.abort()
    const { socket } = request.raw
    socket.once('close', left)
    reply.raw.once('close', () => socket.off('close', left))
    this.running.add(own)
    try {
      const maxBytes = await this.room(own)
      const result = await svc.storage.export!(
        {
          namespace,
          measurement: plan.measurement,
          ...(plan.start === undefined ? {} : { start: plan.start }),
          ...(plan.end === undefined ? {} : { end: plan.end }),
          path: join(this.folders.folder(namespace), name),
          maxBytes,
        },
        { signal: abort.signal },
      )
      metrics.rows.inc(result.rows)
      metrics.bytes.inc(result.bytes)
      if (result.truncated) metrics.truncated.inc()
      metrics.exports.inc({ result: 'done' })
      return { rows_written: result.rows, bytes_written: result.bytes, truncated: result.truncated, path: administersServer(context) ? result.path : name }
    } catch (error) {
      metrics.exports.inc({ result: abort.signal.aborted ? 'cancelled' : 'failed' })
      throw error
    } finally {
      this.running.delete(own)
      end()
    }
  }

  /** Bytes that the file of an export may have, as `maxBytes` of a request: what others under way may take is theirs. @throws RATE_LIMITED. */
  private async room(own: Running): Promise<number> {
    const { namespace } = own
    // One that ends meanwhile may not have been seen in the folder.
    const before = [...this.running]
    const left = await this.folders.left(namespace)
    const { max_bytes: maxBytes } = this.config
    if (left === undefined) return maxBytes
    const others = new Set([...before, ...this.running].filter((each) => each !== own && each.namespace === namespace))
    const free = left - [...others].reduce((sum, { reserved }) => sum + reserved, 0)
    if (free <= 0)
      throw new SvcError(
        'RATE_LIMITED',
        `cannot export: other exports of namespace "${namespace}" that are under way may take all that its quota max_storage_bytes leaves; retry when they have ended`,
      )
    own.reserved = maxBytes === 0 ? free : Math.min(maxBytes, free)
    return own.reserved
  }

  /** @throws RATE_LIMITED. Of several at a time a namespace that is kept apart leaves one to the others. */
  private requireTurn(namespace: string): void {
    const { max_concurrent: most } = this.config
    const own = [...this.running].filter((each) => each.namespace === namespace).length
    const full = this.running.size >= most
    if (!full && (namespace === '' || own < Math.max(1, most - 1))) return
    throw new SvcError(
      'RATE_LIMITED',
      full
        ? `cannot start an export: ${this.running.size} are under way, as many as [export] max_concurrent allows; retry when one of them has ended`
        : `cannot start an export: ${own} of namespace "${namespace}" are under way, and one of [export] max_concurrent is for others; retry when one of them has ended`,
    )
  }
}
