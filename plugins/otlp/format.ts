/** OTLP as a format of messages: an ExportMetricsServiceRequest, in protobuf or JSON, as the OpenTelemetry Collector's exporters to brokers write it. */
import { EXEMPLARS, METRIC_METADATA, type MetricMetadata, type PointFormat, type PointMessage, type PointReader, type Svc, type WriteBatch } from 'svcdb'
import type { SvcError } from 'svcdb/lib/errors'
import { refusalOf } from './answer.ts'
import type { OtlpConfig } from './config.ts'
import type { OtlpDecoder } from './decoder.ts'
import type { JsonThread } from './json-thread.ts'
import type { OtlpMetrics } from './metrics.ts'
import type { Outcome } from './outcome.ts'

const BRACE = 123

export interface OtlpFormatDependencies {
  config: OtlpConfig
  metrics: OtlpMetrics
  json: JsonThread
  newDecoder(namespace: string): OtlpDecoder
  keepExemplars(namespace: string, outcome: Outcome): Promise<void>
}

/** Points name their measurements and tags. */
export function otlpFormat(svc: Svc, dependencies: OtlpFormatDependencies): PointFormat {
  return { defaults: false, nonFinite: true, reader: () => new OtlpReader(svc, dependencies) }
}

class OtlpReader implements PointReader {
  private readonly svc: Svc
  private readonly dependencies: OtlpFormatDependencies
  private decoder: { namespace: string; decoder: OtlpDecoder } | undefined

  constructor(svc: Svc, dependencies: OtlpFormatDependencies) {
    this.svc = svc
    this.dependencies = dependencies
  }

  async read({ body }: PointMessage, batch: WriteBatch, further: (name: string) => WriteBatch): Promise<SvcError | undefined> {
    const { config, metrics, json } = this.dependencies
    // A message in protobuf begins with the tag of resource_metrics, 10.
    const message = body[0] === BRACE ? await json.convert(Buffer.from(body.buffer, body.byteOffset, body.length), batch) : body
    const metadata = this.svc.find<MetricMetadata>(METRIC_METADATA)
    const exemplars = this.svc.provided.has(EXEMPLARS)
    const options = { maxPoints: config.max_points_per_write, maxFailures: config.max_reported_errors, exemplars }
    const decoder = this.decoderFor(batch.namespace)
    const outcome = await decoder.turns.run(() =>
      decoder.decode(
        message,
        (name) => (name === 'points' ? batch : further(name)),
        (entry) => metadata?.note?.(batch.namespace, entry),
        options,
      ),
    )
    await this.dependencies.keepExemplars(batch.namespace, outcome)
    metrics.skipped.inc(outcome.skipped)
    this.svc.ingest.countNonFinite(outcome.nonFinite)
    const { points, refused, failures } = outcome
    return refusalOf({ written: points - refused, rejected: refused, rejections: failures, metrics: outcome.metrics })
  }

  private decoderFor(namespace: string): OtlpDecoder {
    if (this.decoder?.namespace !== namespace) this.decoder = { namespace, decoder: this.dependencies.newDecoder(namespace) }
    return this.decoder.decoder
  }
}
