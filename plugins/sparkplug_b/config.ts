import { type Static, Type } from 'svcdb/lib/schema'

export const configSchema = Type.Object({
  state_measurement: Type.String({
    default: 'sparkplug_state',
    minLength: 1,
    description: 'Measurement of births and deaths: online (bool) and bd_seq of each edge node and device',
  }),
  rebirth: Type.Enum(['request', 'never'], {
    default: 'request',
    description: 'What is done when births were missed: request asks the edge node for them (NCMD Node Control/Rebirth), which the broker has to permit',
  }),
  rebirth_interval_secs: Type.Integer({ default: 10, minimum: 1, maximum: 86_400, description: 'Between two requests to one edge node' }),
  max_metrics: Type.Integer({
    default: 200_000,
    minimum: 1,
    maximum: 10_000_000,
    description: 'Metrics of births that are known at one time, for each connector; edge nodes not heard of for longest are forgotten and asked again',
  }),
  max_fields: Type.Integer({
    default: 1024,
    minimum: 1,
    maximum: 65_536,
    description: 'Metrics that may be fields of one measurement; at most database.max_fields_per_measurement, which refuses whole points',
  }),
  max_name_bytes: Type.Integer({
    default: 256,
    minimum: 16,
    maximum: 4096,
    description: 'Longest name of a metric, in bytes of UTF-8; at most database.max_name_bytes, which refuses whole points',
  }),
  max_string_bytes: Type.Integer({
    default: 65_536,
    minimum: 1,
    maximum: 16_777_216,
    description: 'Longest text of a metric, in bytes of UTF-8; at most database.max_string_bytes, which refuses whole points',
  }),
})

export type SparkplugConfig = Static<typeof configSchema>
