import { type Static, Type } from 'svcdb/lib/schema'

const count = (value: number, maximum: number, description: string) => Type.Integer({ default: value, minimum: 1, maximum, description })

export const configSchema = Type.Object({
  catalog_path: Type.String({
    default: '',
    maxLength: 4096,
    description: 'Taken and not used: definitions, cooldowns and signals are kept in the state store, and so in every backup',
  }),
  signal_store_capacity: count(10_000, 1_000_000, 'Signals that are kept of a namespace; the oldest goes for a new one'),
  max_signal_tag_bytes: count(
    4096,
    1_048_576,
    'Bytes of the tags of a signal, keys included; of a series with more the largest are left out, and metadata.tags_omitted says how many',
  ),
  default_cooldown_secs: Type.Number({
    default: 300,
    minimum: 0,
    maximum: 31_536_000,
    description: 'Cooldown of triggers that name none: around the time of a point that fired, no other point of its series fires',
  }),
  warning_value: Type.Number({ default: 0.5, description: 'A signal of at least this value has the severity warning, one below it info' }),
  critical_value: Type.Number({ default: 0.8, description: 'A signal of at least this value has the severity critical' }),
  max_triggers: count(100_000, 10_000_000, 'Triggers in all'),
  max_triggers_per_namespace: count(10_000, 1_000_000, 'Triggers of a namespace'),
  max_triggers_per_measurement: count(1000, 10_000, 'Triggers on one measurement'),
  max_composites_per_namespace: count(100, 10_000, 'Composites of a namespace; each signal is looked at for those that name its trigger'),
  max_composite_groups_per_namespace: count(
    50_000,
    1_000_000,
    'Values of the tags that composites of a namespace are by, for which it is remembered what their members have found; those met longest ago are forgotten',
  ),
  max_statement_bytes: count(16_384, 1_048_576, 'Bytes of a statement'),
  max_comparisons: count(32, 1000, 'Comparisons of a condition'),
  max_condition_depth: count(16, 100, 'Parentheses of a condition within one another'),
  max_channels: count(4, 100, 'Channels of a trigger'),
  max_cooldowns: count(1_000_000, 100_000_000, 'Pairs of a trigger and a series that are remembered in all; namespaces with triggers have equal shares'),
  max_cooldowns_per_namespace: count(
    50_000,
    10_000_000,
    'Pairs of a trigger and a series that are remembered for a namespace; when the oldest is forgotten, late points of its series no longer fire',
  ),
  processor_share: Type.Number({
    default: 0.5,
    minimum: 0.01,
    maximum: 1,
    description: 'Share of the time of the main thread that conditions may take while there is more to judge, of all namespaces together, who take turns',
  }),
  gap_lookback_secs: count(
    172_800,
    31_536_000,
    'Where points went from the log of changes before they were judged, stored ones are judged from this long before the gap on',
  ),
  log_queue_size: count(1000, 100_000, 'Signals that may wait for the channel log; for a new one the oldest is dropped of the namespace of which most wait'),
  drain_secs: Type.Number({ default: 5, minimum: 0, maximum: 60, description: 'How long a stop of the server waits for signals that are under way' }),
  audit_signals: Type.Boolean({ default: false, description: 'Each signal is an entry of the audit log, signal_fired' }),
  max_annotations: count(1000, 100_000, 'Annotations of one answer'),
  annotation_rows: count(100, 10_000, 'Rows of one measurement that are shown as annotations, the newest'),
  max_subscribers: count(1000, 100_000, 'Readers of the stream of annotations at one time'),
  max_subscribers_per_namespace: count(100, 100_000, 'Readers of the stream of annotations of one namespace'),
  slow_reader_secs: count(30, 3600, 'How long a reader of the stream of annotations may take nothing before the connection is closed'),
})

export type TriggersConfig = Static<typeof configSchema>
