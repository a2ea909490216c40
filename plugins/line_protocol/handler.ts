/** The HTTP side: reads the request, hands its bytes to the namespace's parser and its points to the one door for writes. */
import { randomInt } from 'node:crypto'
import type { FastifyReply } from 'fastify'
import { PerNamespace } from '../../kernel/decode/per-namespace.ts'
import { SvcError } from '../../kernel/errors.ts'
import type { Counter } from '../../kernel/metrics.ts'
import type { HttpRequest, Svc } from '../../kernel/plugin.ts'
import { nothingParsed, refusal, tooManyPoints } from './answer.ts'
import type { LineProtocolConfig } from './config.ts'
import { DEFAULT_LIMITS } from './limits.ts'
import type { Precision } from './outcome.ts'
import { LineParser } from './parser.ts'

/** InfluxDB 2 names and the older ones of InfluxDB 1. */
const PRECISIONS: Record<string, Precision> = { ns: 'ns', n: 'ns', us: 'us', u: 'us', µ: 'us', ms: 'ms', s: 's', m: 'm', h: 'h' }

export interface WriteQuery {
  precision?: string
  backfill?: boolean
}

export class WriteHandler {
  private readonly svc: Svc
  private readonly config: LineProtocolConfig
  private readonly written: Counter
  private readonly parsers: PerNamespace<LineParser>

  constructor(svc: Svc, config: LineProtocolConfig) {
    this.svc = svc
    this.config = config
    this.parsers = new PerNamespace(config.max_cached_namespaces, (namespace) => this.newParser(namespace))
    this.written = svc.metrics.counter('influx_points_written_total', 'Points written by line protocol')
  }

  async write(request: HttpRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { svc } = this
    const query = request.query as WriteQuery
    const precision = precisionOf(query.precision)
    const context = svc.context(request)
    const body = (request.body as Buffer | undefined) ?? new Uint8Array(0)
    const maxPoints = svc.server.max_write_batch_size
    const batch = svc.storage.batch(context.dataNamespace)
    let handedOver = false
    try {
      const outcome = this.parsers.get(context.dataNamespace).parse(body, batch, { precision, now: svc.clock.nowNanos(), maxPoints })
      if (outcome.tooMany) throw tooManyPoints(maxPoints)
      if (outcome.rows === 0) {
        if (outcome.rejected > 0) throw nothingParsed(outcome)
        return reply.code(204).send()
      }
      handedOver = true
      const idempotencyKey = request.headers['idempotency-key'] as string | undefined
      const result = await svc.ingest.write(batch, context, { backfill: query.backfill === true, idempotencyKey, surface: svc.id })
      this.written.inc(result.written)
      const refused = refusal(outcome, result)
      if (refused !== undefined) throw refused
      return reply.code(204).send()
    } finally {
      if (!handedOver) svc.storage.recycle(batch)
    }
  }

  private newParser(namespace: string): LineParser {
    return new LineParser(this.svc.storage.resolver, namespace, {
      limits: { ...DEFAULT_LIMITS, maxFields: this.config.max_fields_per_point },
      maxInternedBytes: this.config.series_cache_bytes,
      maxFailures: this.config.max_reported_errors,
      seed: randomInt(2 ** 31),
    })
  }
}

function precisionOf(text: string | undefined): Precision {
  if (text === undefined || text === '') return 'ns'
  if (!Object.hasOwn(PRECISIONS, text))
    throw new SvcError('BAD_REQUEST', `cannot use precision "${text.slice(0, 32)}": it is one of ns, us, ms, s (or n, u, m, h)`)
  return PRECISIONS[text]
}

/** Clients of InfluxDB 2 read the reason from the body's `message`, or from a header, which holds printable ASCII only. */
export async function addInfluxHeaders(request: HttpRequest, reply: FastifyReply, payload: unknown): Promise<unknown> {
  reply.header('x-influxdb-version', INFLUX_VERSION)
  if (reply.statusCode < 400 || typeof payload !== 'string') return payload
  const body = JSON.parse(payload) as { error?: string }
  if (body.error === undefined) return payload
  reply.header('x-influx-error', body.error.slice(0, MAX_HEADER_TEXT).replace(/[^\x20-\x7e]/g, '?'))
  return request.url.startsWith('/api/v2/') ? JSON.stringify({ ...body, message: body.error }) : payload
}

/** What the write endpoint speaks: clients choose the dialect by it. */
const INFLUX_VERSION = '1.8.10-svc'
const MAX_HEADER_TEXT = 512
