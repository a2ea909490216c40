import { type Static, Type } from 'svcdb/lib/schema'
import type { ParseLimits } from './parser/cursor.ts'

/** The limits of answers are keys of [server]. */
export const configSchema = Type.Object({
  lookback_delta_secs: Type.Number({
    default: 300,
    minimum: 0.001,
    maximum: 86_400,
    description: 'How far an instant selector looks back for a sample; a query may ask for another',
  }),
  default_evaluation_interval_secs: Type.Number({ default: 60, minimum: 0.001, maximum: 86_400, description: 'Step of subqueries that name none' }),
  max_query_memory_bytes: Type.Integer({
    default: 0,
    minimum: 0,
    maximum: 1_099_511_627_776,
    description: 'Bytes of the values that one query holds at a time; above: 422; 0 = as much as all of a query thread, server.max_held_memory',
  }),
  max_query_length: Type.Integer({ default: 1_048_576, minimum: 16, maximum: 67_108_864, description: 'Characters of a query; above: 400' }),
  max_query_depth: Type.Integer({
    default: 500,
    minimum: 10,
    maximum: 1000,
    description: 'Levels of nesting of a query, operators in a row included; above: 400',
  }),
  default_discovery_range_secs: Type.Number({
    default: 3600,
    minimum: 0,
    maximum: 315_360_000,
    description: 'How far labels, label values and series reach back when the request names no start; 0 = from the beginning',
  }),
  remote_read_sample_limit: Type.Integer({
    default: 50_000_000,
    minimum: 0,
    maximum: 10_000_000_000,
    description: 'Samples of one remote read answered as samples; above: 400; 0 = no limit. Reads answered as chunks have none',
  }),
  remote_read_max_bytes_in_frame: Type.Integer({
    default: 1_048_576,
    minimum: 1024,
    maximum: 67_108_864,
    description: 'Bytes of one frame of a streamed remote read, exceeded by at most a chunk',
  }),
  external_labels: Type.Record(Type.String({ pattern: '^[A-Za-z_][A-Za-z0-9_]{0,127}$' }), Type.String({ maxLength: 1024, description: 'Value' }), {
    default: {},
    description: 'Labels that /status/config shows, by which the sidecar of Thanos tells servers apart; svc itself puts them nowhere, such as `replica = "a"`',
  }),
  admin_api: Type.Union([Type.Literal('off'), Type.Literal('on')], {
    default: 'off',
    description: 'Whether /api/v1/admin/tsdb/delete_series is answered, to callers that may delete; off: 503, as by Prometheus without --web.enable-admin-api',
  }),
})

export type PromqlConfig = Static<typeof configSchema>

export function parseLimits(config: PromqlConfig): ParseLimits {
  return { maxLength: config.max_query_length, maxDepth: config.max_query_depth }
}
