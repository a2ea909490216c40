import { alsoNamed, Secret } from 'svcdb'
import { type Static, Type } from 'svcdb/lib/schema'

export const configSchema = Type.Object({
  service_name: Type.String({
    default: 'svc',
    minLength: 1,
    maxLength: 256,
    description: 'service.name of all spans: what the node is called where traces are shown',
  }),
  endpoint: Type.String({
    ...alsoNamed('tracing.otlp.endpoint'),
    pattern: '^https?://[^/\\s]+(/\\S*)?$',
    description:
      'Where spans go, by OTLP: a collector, as http:// or https:// with host and port, such as http://localhost:4317; without a port 4317, with http_protobuf 4318. A path counts with http_protobuf only; without one it is /v1/traces',
  }),
  protocol: Type.Enum(['grpc', 'http_protobuf'], { default: 'grpc', description: 'How they go' }),
  authorization: Type.Optional(
    Secret.schema({ description: 'Sent to the endpoint as the header `authorization`, such as `Bearer` and a token', minLength: 1 }),
  ),
  sampling: Type.Union([Type.Enum(['always_on', 'always_off', 'ratio']), Type.Number({ minimum: 0, maximum: 1 })], {
    ...alsoNamed('tracing.otlp.sampling'),
    default: 'ratio',
    description:
      'Which operations are recorded, decided when they begin: all (always_on), none (always_off), or a part of them by chance: of `ratio`, or of the number that is given here, from 0 to 1',
  }),
  ratio: Type.Number({ default: 0.01, minimum: 0, maximum: 1, description: 'The part that `sampling = "ratio"` records' }),
  always_sample_errors: Type.Boolean({
    ...alsoNamed('tracing.otlp.always_sample_errors'),
    default: true,
    description:
      'What fails by the node (HTTP 5xx, likewise over gRPC, work inside) and was not recorded becomes a single span all the same, whatever `sampling` says',
  }),
  parent: Type.Enum(['continue', 'follow', 'ignore'], {
    default: 'continue',
    description:
      "What a caller's `traceparent` means: `continue` = a recorded request belongs to the caller's trace, whether it is recorded is decided here; `follow` = its flag decides, so that whoever calls can have every request recorded; `ignore` = each request is a trace of its own",
  }),
  attributes: Type.Record(Type.String({ pattern: '^[\\w.-]{1,128}$' }), Type.String({ maxLength: 1024, description: 'Value' }), {
    default: {},
    description: 'Attributes of the resource, such as `"deployment.environment.name" = "production"`',
  }),
  queue_size: Type.Integer({
    default: 4096,
    minimum: 16,
    maximum: 1_000_000,
    description: 'Spans that wait for the endpoint or are being sent; what comes on top is not recorded, and counted',
  }),
  batch_size: Type.Integer({ default: 512, minimum: 1, maximum: 65_536, description: 'Spans of one request to it' }),
  interval_secs: Type.Number({
    default: 5,
    minimum: 0.05,
    maximum: 300,
    description: 'Spans wait for so long to be sent together, unless there are batch_size of them',
  }),
  timeout_secs: Type.Number({ default: 10, minimum: 0.1, maximum: 300, description: 'Time limit of one request to it, with the tries after the first' }),
  max_trace_spans: Type.Integer({
    default: 1000,
    minimum: 1,
    maximum: 1_000_000,
    description: 'Spans of one operation and what happens below it; what comes on top is not recorded',
  }),
})

type GivenConfig = Static<typeof configSchema>

export type TracingConfig = Omit<GivenConfig, 'sampling'> & { sampling: 'always_on' | 'always_off' | 'ratio' }

/** A number is the part that is recorded. */
export function resolved({ sampling, ...given }: GivenConfig): TracingConfig {
  // What sends it would show all of it when it refuses it.
  if (/[^\x20-\x7e]/.test(given.authorization?.reveal() ?? ''))
    throw new Error('cannot use tracing.authorization: it has characters that no header may have, such as a line break at its end; write printable ASCII')
  return typeof sampling === 'number' ? { ...given, sampling: 'ratio', ratio: sampling } : { ...given, sampling }
}
