/** POST /api/v1/write. */
import { randomInt } from 'node:crypto'
import type { FastifyReply } from 'fastify'
import type { Counter } from '../../kernel/metrics.ts'
import { partialWrite } from '../../kernel/partial-write.ts'
import type { HttpRequest, Svc } from '../../kernel/plugin.ts'
import type { Rejection } from '../../kernel/storage.ts'
import type { NativeConfig } from './config.ts'
import { PointsParser } from './points.ts'

export class WriteHandler {
  private readonly svc: Svc
  private readonly config: NativeConfig
  private readonly written: Counter
  /** In order of use, the longest unused first. */
  private readonly parsers = new Map<string, PointsParser>()

  constructor(svc: Svc, config: NativeConfig) {
    this.svc = svc
    this.config = config
    this.written = svc.metrics.counter('http_points_written_total', 'Points written as JSON')
  }

  async write(request: HttpRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { svc } = this
    const context = svc.context(request)
    const body = (request.body as Buffer | undefined) ?? new Uint8Array(0)
    const batch = svc.storage.batch(context.dataNamespace)
    let handedOver = false
    try {
      const options = { now: svc.clock.nowNanos(), maxPoints: svc.server.max_write_batch_size, maxFields: this.config.max_fields_per_point }
      const parsed = this.parser(context.dataNamespace).parse(body, batch, options)
      if (parsed.points === 0) return reply.code(204).send()
      if (parsed.rejected === parsed.points) throw partialWrite({ ...parsed, written: 0 })
      handedOver = true
      const idempotencyKey = request.headers['idempotency-key'] as string | undefined
      const backfill = (request.query as { backfill?: boolean }).backfill === true
      const result = await svc.ingest.write(batch, context, { backfill, idempotencyKey, surface: svc.id })
      this.written.inc(result.written)
      const rejected = parsed.rejected + result.rejected
      if (rejected > 0) throw partialWrite({ written: result.written, rejected, rejections: inOrder(parsed.rejections, result.rejections) })
      return reply.code(204).send()
    } finally {
      if (!handedOver) svc.storage.recycle(batch)
    }
  }

  private parser(namespace: string): PointsParser {
    const { resolver } = this.svc.storage
    const parser = this.parsers.get(namespace) ?? new PointsParser(resolver, namespace, this.config.series_cache_bytes, randomInt(2 ** 31))
    this.parsers.delete(namespace)
    this.parsers.set(namespace, parser)
    if (this.parsers.size > this.config.max_cached_namespaces) this.parsers.delete(this.parsers.keys().next().value as string)
    return parser
  }
}

function inOrder(...lists: readonly Rejection[][]): Rejection[] {
  return lists.flat().sort((a, b) => a.position - b.position)
}
