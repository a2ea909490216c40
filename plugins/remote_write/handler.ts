/** The HTTP side: reads the request, hands its bytes to the namespace's decoder and its samples to `svc.ingest`. */
import type { FastifyReply } from 'fastify'
import { type CallContext, type Counter, type HttpRequest, holdBody, hungUp, type Svc, type WriteResult } from 'svcdb'
import { PerNamespace } from 'svcdb/lib/cache'
import type { WriteBatch } from 'svcdb/lib/columns'
import { NOTHING_WRITTEN, refusal, tallyOf, writtenHeaders } from './answer.ts'
import type { RemoteWriteConfig } from './config.ts'
import { checkEncoding, type Version, versionOf } from './content.ts'
import type { RequestDecoder } from './decoder.ts'
import type { Outcome } from './outcome.ts'
import type { Payloads } from './payload.ts'
import type { Requests } from './requests.ts'

interface WriteQuery {
  backfill?: boolean
  get_vm_proto_version?: string
}

const NONE_WRITTEN = writtenHeaders({ samples: 0, histograms: 0, rejected: 0 })

/** What a request came to, and whether it has filled the batch of floats, and that of histograms. */
interface Decoded {
  outcome: Outcome
  floats: boolean
  histograms: boolean
}

export class WriteHandler {
  private readonly svc: Svc
  private readonly config: RemoteWriteConfig
  private readonly written: Counter
  private readonly rejected: Counter
  private readonly requests: Requests
  private readonly payloads: Payloads
  private readonly decoders: PerNamespace<RequestDecoder>

  constructor(svc: Svc, config: RemoteWriteConfig, requests: Requests, payloads: Payloads) {
    this.svc = svc
    this.config = config
    this.decoders = new PerNamespace(config.max_cached_namespaces, (namespace) => requests.newDecoder(namespace))
    this.requests = requests
    this.payloads = payloads
    const { metrics } = svc
    this.written = metrics.counter('remote_write_points_written_total', 'Samples and native histograms written by remote write')
    this.rejected = metrics.counter('remote_write_points_rejected_total', 'Samples and native histograms of remote write that were refused for good')
  }

  async write(request: HttpRequest, reply: FastifyReply): Promise<FastifyReply> {
    const query = request.query as WriteQuery
    // Asked by vmagent before 1.88, to learn whether zstd is understood: it is.
    if (query.get_vm_proto_version !== undefined) return reply.type('text/plain').send('1')
    const version = versionOf(request.headers['content-type'])
    // On every answer, so that a failure says as well that nothing was written.
    if (version === 2) reply.headers(NONE_WRITTEN)
    const body = request.body as Buffer | undefined
    checkEncoding(request.headers['content-encoding'], body)
    if (body === undefined) return reply.code(204).send()
    const context = this.svc.context(request)
    const idempotencyKey = request.headers['idempotency-key'] as string | undefined
    const options = { backfill: query.backfill === true, idempotencyKey, nonFinite: true }
    const { filled: decoded, results } = await this.svc.ingest.writeSeveral(context, options, (open) =>
      this.payloads.read(body, (message) => (message.length === 0 ? undefined : this.decode(request, context, version, message, open)), version === 1, {
        namespace: context.dataNamespace,
        ended: hungUp(request),
        hold: (bytes) => holdBody(request, bytes),
      }),
    )
    if (decoded !== undefined) await this.answer(reply, version, context.dataNamespace, decoded, results)
    return reply.code(204).send()
  }

  /** @throws SvcError for what was not written, after what could be. */
  private async answer(reply: FastifyReply, version: Version, namespace: string, decoded: Decoded, parts: PromiseSettledResult<WriteResult>[]): Promise<void> {
    const { outcome, floats, histograms } = decoded
    const written = parts.map((part) => (part.status === 'fulfilled' ? part.value : NOTHING_WRITTEN))
    const floatResult = floats ? written[0] : NOTHING_WRITTEN
    const histogramResult = histograms ? (written.at(-1) as WriteResult) : NOTHING_WRITTEN
    const tally = tallyOf(outcome, floatResult, histogramResult)
    this.written.inc(floatResult.written + histogramResult.written)
    this.rejected.inc(tally.rejected)
    // What may be sent again comes before what may not.
    const failed = parts.find((part) => part.status === 'rejected')
    // Of what comes again, exemplars come again too.
    const kept = failed === undefined ? await this.requests.keep(namespace, outcome) : 0
    const accepted = failed === undefined && tally.rejected === 0 && this.config.exemplars_written === 'accepted'
    if (version === 2) reply.headers(writtenHeaders(tally, accepted ? outcome.exemplars : kept))
    if (failed !== undefined) throw failed.reason
    const refused = refusal(outcome, floatResult, histogramResult, tally)
    if (refused !== undefined) throw refused
  }

  private async decode(request: HttpRequest, context: CallContext, version: Version, message: Uint8Array, open: () => WriteBatch): Promise<Decoded> {
    const namespace = context.dataNamespace
    const floats = open()
    let histograms: WriteBatch | undefined
    const outcome = await this.requests.decode(this.decoders.get(namespace), {
      ...{ namespace, version, message, floats, ended: hungUp(request) },
      histograms: () => (histograms = open()),
    })
    return { outcome, floats: outcome.floatRows > 0, histograms: histograms !== undefined && histograms.rows > 0 }
  }
}
