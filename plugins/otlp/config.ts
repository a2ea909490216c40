import { type Static, Type } from 'svcdb/lib/schema'

export const configSchema = Type.Object({
  names: Type.Union([Type.Literal('otel'), Type.Literal('prometheus')], {
    default: 'otel',
    description:
      'How metrics and attributes are called: otel (as they were sent; gauges in field "gauge"), or prometheus (unit and type suffixes, characters of PromQL only, job and instance from service.*; gauges in field "value")',
  }),
  delta: Type.Union([Type.Literal('store'), Type.Literal('refuse')], {
    default: 'store',
    description: 'What becomes of points of delta temporality: store (each point as it is: add them up, do not take their rate), or refuse',
  }),
  scope: Type.Union([Type.Literal('drop'), Type.Literal('tags')], {
    default: 'drop',
    description: "What becomes of the instrumentation scope's name and version: drop, or tags (otel.scope.name and otel.scope.version)",
  }),
  dropped_attributes: Type.Array(Type.String({ minLength: 1, description: 'An attribute, by its key as it is sent' }), {
    default: [],
    description: 'Attributes of resources and data points that are no tags, such as "process.pid": each value of theirs would begin a series',
  }),
  max_decompressed_bytes: Type.Integer({
    default: 33_554_432,
    minimum: 1024,
    maximum: 1_073_741_824,
    description: 'Largest request after decompression',
  }),
  max_points_per_write: Type.Integer({
    default: 1_000_000,
    minimum: 1,
    maximum: 16_777_216,
    description: 'Data points of one request; a request with more is refused',
  }),
  max_buckets_per_histogram: Type.Integer({
    default: 65_536,
    minimum: 1,
    maximum: 16_777_216,
    description: 'Buckets or boundaries of one histogram; a point with more is refused',
  }),
  max_quantiles_per_summary: Type.Integer({
    default: 1024,
    minimum: 1,
    maximum: 65_536,
    description: 'Quantiles of one summary, each of which is a field of its measurement; a point with more is refused',
  }),
  max_reported_errors: Type.Integer({
    default: 16,
    minimum: 1,
    maximum: 1000,
    description: 'Refused data points of one request whose reasons are kept; the others are counted',
  }),
  series_cache_bytes: Type.Integer({
    default: 268_435_456,
    minimum: 65_536,
    maximum: 4_294_967_296,
    description:
      'Memory for attributes, as sent, that are recognised without being parsed again, and about what their resources and scopes take, for each namespace; emptied when full',
  }),
  max_cached_namespaces: Type.Integer({ default: 16, minimum: 1, maximum: 10_000, description: 'Namespaces that have a series cache at one time' }),
})

export type OtlpConfig = Static<typeof configSchema>
