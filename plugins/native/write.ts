/** POST /api/v1/write. */
import { randomInt } from 'node:crypto'
import type { FastifyReply } from 'fastify'
import { type Counter, type HttpRequest, hungUp, partialWrite, type Rejection, type Svc } from 'svcdb'
import { PerNamespace } from 'svcdb/lib/cache'
import { SvcError } from 'svcdb/lib/errors'
import type { NativeConfig } from './config.ts'
import { SHOWN } from './json-members.ts'
import { PointsParser } from './points.ts'

export class WriteHandler {
  private readonly svc: Svc
  private readonly config: NativeConfig
  private readonly written: Counter
  private readonly parsers: PerNamespace<PointsParser>

  constructor(svc: Svc, config: NativeConfig) {
    this.svc = svc
    this.config = config
    const { max_cached_namespaces: most, series_cache_bytes: bytes } = config
    this.parsers = new PerNamespace(most, (namespace) => new PointsParser(svc.storage.resolver, namespace, bytes, randomInt(2 ** 31)))
    this.written = svc.metrics.counter('http_points_written_total', 'Points written as JSON')
  }

  async write(request: HttpRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { svc } = this
    const context = svc.context(request)
    const body = (request.body as Buffer | undefined) ?? new Uint8Array(0)
    const idempotencyKey = request.headers['idempotency-key'] as string | undefined
    const { backfill = false, precision = 'ns' } = request.query as { backfill?: boolean; precision?: string }
    if (precision !== 'ns' && precision !== 'n') {
      const hint = 'times of points in JSON are nanoseconds; write them so, or send line protocol to /write, which has precision'
      throw new SvcError('BAD_REQUEST', `cannot use precision "${precision.slice(0, SHOWN)}": ${hint}`)
    }
    const { filled: parsed, ...result } = await svc.ingest.write(context, { backfill, idempotencyKey }, (batch) => {
      const options = { now: svc.clock.nowNanos(), maxPoints: svc.server.max_write_batch_size, maxFields: this.config.max_fields_per_point }
      const parser = this.parsers.get(context.dataNamespace)
      return parser.turns.run(() => parser.parse(body, batch, options), hungUp(request))
    })
    this.written.inc(result.written)
    const rejected = parsed.rejected + result.rejected
    if (rejected > 0) throw partialWrite({ written: result.written, rejected, rejections: inOrder(parsed.rejections, result.rejections) })
    return reply.code(204).send()
  }
}

function inOrder(...lists: readonly Rejection[][]): Rejection[] {
  return lists.flat().sort((a, b) => a.position - b.position)
}
