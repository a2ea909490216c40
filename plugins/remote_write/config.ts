import { type Static, Type } from 'svcdb/lib/schema'

export const configSchema = Type.Object({
  max_decompressed_bytes: Type.Integer({
    default: 33_554_432,
    minimum: 1024,
    maximum: 1_073_741_824,
    description: 'Largest request after decompression; a larger one is refused before it is decompressed',
  }),
  max_parallel_decompressions: Type.Integer({
    default: 8,
    minimum: 0,
    maximum: 256,
    description:
      'Large snappy requests (128 KiB to 4 MiB after decompression) that a thread of their own decompresses at one time, each in memory that is kept; further ones, and with 0 all, are decompressed on the main thread',
  }),
  max_samples_per_write: Type.Integer({
    default: 1_000_000,
    minimum: 1,
    maximum: 16_777_216,
    description: 'Samples and histograms of one request; a request with more is refused',
  }),
  max_buckets_per_histogram: Type.Integer({
    default: 65_536,
    minimum: 1,
    maximum: 16_777_216,
    description: 'Buckets, spans or boundaries of one native histogram; one with more is refused',
  }),
  max_reported_errors: Type.Integer({
    default: 16,
    minimum: 1,
    maximum: 1000,
    description: 'Refused series and samples of one request whose reasons are kept; the others are counted',
  }),
  float_and_histogram: Type.Union([Type.Literal('refuse'), Type.Literal('keep_both')], {
    default: 'refuse',
    description:
      'What becomes of native histograms under the name of a float metric, and the other way round: refuse (a type conflict), or keep_both (in a field of their own beside the first, "value:histogram" or "value:float"; PromQL sees one metric)',
  }),
  non_finite: Type.Union([Type.Literal('store'), Type.Literal('skip')], {
    default: 'store',
    description:
      'What becomes of NaN, infinities and staleness markers: store (PromQL sees them as Prometheus does, SQL and native answers leave them out), or skip (counted, answered as written, and seen by nobody)',
  }),
  exemplars_written: Type.Union([Type.Literal('none'), Type.Literal('accepted')], {
    default: 'none',
    description:
      'What version 2.0 answers as written exemplars that are not kept, as none are without the plugin exemplars: none (only those that are kept count), or accepted (all of a request that was taken whole, for senders that call what is not counted an error)',
  }),
  series_cache_bytes: Type.Integer({
    default: 268_435_456,
    minimum: 65_536,
    maximum: 4_294_967_296,
    description: 'Memory for label sets, as sent, that are recognised without being parsed again, for each namespace and protocol version; emptied when full',
  }),
  max_cached_namespaces: Type.Integer({ default: 16, minimum: 1, maximum: 10_000, description: 'Namespaces that have a series cache at one time' }),
  max_metadata_metrics: Type.Integer({
    default: 100_000,
    minimum: 0,
    maximum: 10_000_000,
    description:
      'Metrics of all namespaces whose metadata is kept; that of further ones is dropped and counted, but where a namespace has less than its share, the one with most gives way',
  }),
  max_metadata_bytes: Type.Integer({
    default: 67_108_864,
    minimum: 65_536,
    maximum: 17_179_869_184,
    description:
      'Memory for metadata of all namespaces, about; above it as above max_metadata_metrics, but that what is new of a metric takes the place of what was said of it before',
  }),
  max_metadata_per_metric: Type.Integer({
    default: 4,
    minimum: 1,
    maximum: 100,
    description: 'Different metadata kept of one metric, the newest first',
  }),
  max_metadata_text_bytes: Type.Integer({
    default: 1024,
    minimum: 16,
    maximum: 65_536,
    description: 'Longest help text and longest unit kept, in bytes of UTF-8; what is longer is cut',
  }),
  metadata_save_secs: Type.Integer({
    default: 10,
    minimum: 1,
    maximum: 3600,
    description: 'How long new metadata may wait until it is on disk',
  }),
})

export type RemoteWriteConfig = Static<typeof configSchema>
