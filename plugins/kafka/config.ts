import { type Static, Type } from 'svcdb/lib/schema'
import { accessKeys, checkAccess } from './access-config.ts'
import { checkSinks, sinkSchema } from './sink/config.ts'

const text = (description: string, more: object = {}) => Type.Optional(Type.String({ minLength: 1, maxLength: 1024, description, ...more }))
const KIB = 1024
const MIB = 1024 * KIB
const TOPIC = { minLength: 1, maxLength: 249, pattern: '^[A-Za-z0-9._-]+$' }

/** Of one connector. */
const keys = {
  ...accessKeys,
  namespace: Type.String({ default: 'default', description: 'Where points go; under server.multi_tenancy one that exists' }),
  group_id: text('The consumer group, which shares the partitions among its members; default svc-<name>', { maxLength: 249 }),
  topics: Type.Array(Type.String({ ...TOPIC, description: 'A topic' }), { default: [], maxItems: 1000, description: 'Topics to consume' }),
  format: Type.String({
    default: 'line_protocol',
    description: 'Format of records: line_protocol, json, prometheus_remote_write, otlp; its plugin must be selected',
  }),
  auto_offset_reset: Type.String({
    default: 'latest',
    pattern: '^(latest|earliest|\\d{4}-\\d{2}-\\d{2}T\\S+)$',
    description: 'Where a group begins that has committed nothing: latest, earliest, or an RFC 3339 time',
  }),
  topic_measurement_map: Type.Record(Type.String(), Type.String({ minLength: 1, description: 'Measurement' }), {
    default: {},
    description: 'Topic, in which + and # stand for levels between dots, to the measurement of points that name none; without it the topic',
  }),
  tags_from_topic: Type.Array(Type.String({ minLength: 1, maxLength: 1024, description: 'Such as site.+line.+machine: +line is a tag of that name' }), {
    default: [],
    maxItems: 100,
    description: 'Tags out of the levels of topics, which dots part; the first pattern that fits counts',
  }),
  time_header: text(
    'Header of records with the time of points that have none: nanoseconds since the Unix epoch, or RFC 3339; default the timestamp of the record',
  ),
  backfill: Type.Boolean({ default: false, description: 'Admits points older than the live window' }),
  session_timeout_ms: Type.Integer({
    default: 30_000,
    minimum: 1000,
    maximum: 3_600_000,
    description: 'After this without a sign of life the group gives partitions to others',
  }),
  reconnect_ms: Type.Integer({ default: 5000, minimum: 100, maximum: 3_600_000, description: 'Wait before a connection is tried again' }),
  fetch_max_bytes: Type.Integer({ default: 4 * MIB, minimum: KIB, maximum: 256 * MIB, description: 'Of one fetch, as brokers have it: compressed' }),
  max_response_bytes: Type.Integer({
    default: 64 * MIB,
    minimum: MIB,
    maximum: 1024 * MIB,
    description: 'What an answer of a broker may have beside fetch_max_bytes; one that is larger ends the connection',
  }),
  fetch_wait_ms: Type.Integer({ default: 500, minimum: 1, maximum: 30_000, description: 'How long a broker holds a fetch while there is nothing' }),
  max_in_flight: Type.Integer({ default: 10_000, minimum: 1, maximum: 1_000_000, description: 'Records that are taken and not settled' }),
  max_in_flight_bytes: Type.Integer({ default: 16 * MIB, minimum: 64 * KIB, maximum: 1024 * MIB, description: 'Bytes of those' }),
  max_message_bytes: Type.Integer({ default: 16 * MIB, minimum: KIB, maximum: 256 * MIB, description: 'Largest record; one that is larger is a dead letter' }),
  dead_letter_topic: text(
    'Topic for records that could not be stored, in place of the file; those that its brokers never take, as too large, are in the file',
    TOPIC,
  ),
  dead_letter_bytes: Type.Integer({
    default: 64 * MIB,
    minimum: 64 * KIB,
    maximum: 1024 * MIB,
    description: 'Bytes of the file of records that could not be stored, <data_dir>/dead-letters/<name>.jsonl, and of the one before it, each',
  }),
}

const NAME = { minLength: 1, maxLength: 64, pattern: '^[A-Za-z0-9][A-Za-z0-9_.-]*$' }

export const configSchema = Type.Object({
  ...keys,
  connector: Type.Array(Type.Object({ name: Type.String({ ...NAME, description: 'Name in metrics and listings; unique' }), ...keys }), {
    default: [],
    maxItems: 100,
    description: 'Further connectors, each with the keys above and a name; those of the section itself are the connector kafka-default',
  }),
  sink: Type.Array(sinkSchema, { default: [], maxItems: 100, description: 'What sends changes to Kafka, each with a name' }),
})

type KafkaConfig = Static<typeof configSchema>
export type ConnectorConfig = Omit<KafkaConfig, 'connector' | 'sink'> & { name: string }

const DEFAULT_NAME = 'kafka-default'

/** @throws Error that says which key of which connector is wrong. */
export function connectorsOf({ connector, sink, ...own }: KafkaConfig): ConnectorConfig[] {
  const all = [...(own.brokers === undefined ? [] : [{ ...own, name: DEFAULT_NAME }]), ...connector]
  if (own.brokers === undefined && own.topics.length > 0) throw new Error('cannot use kafka.topics without kafka.brokers: say where the brokers are')
  if (all.length + sink.length === 0)
    throw new Error(
      'cannot use the section [kafka]: it has no connector and no sink; add kafka.brokers and kafka.topics, or a kafka.sink, or leave the section out',
    )
  for (const each of all) {
    const where = each.name === DEFAULT_NAME ? 'kafka' : `kafka.connector "${each.name}"`
    checkAccess(where, each)
    if (each.topics.length === 0) throw new Error(`cannot use ${where}: it has no topics; add those to consume`)
    beginOf(each, where)
    if (each.dead_letter_topic !== undefined && each.topics.includes(each.dead_letter_topic))
      throw new Error(`cannot use ${where}: dead_letter_topic "${each.dead_letter_topic}" is one of its topics; choose another`)
  }
  checkSinks(sink, all)
  return all
}

/** Milliseconds since the Unix epoch for a time. @throws Error for what is none. */
export function beginOf({ auto_offset_reset: reset }: ConnectorConfig, where: string): 'latest' | 'earliest' | number {
  if (reset === 'latest' || reset === 'earliest') return reset
  const time = Date.parse(reset)
  if (Number.isNaN(time))
    throw new Error(`cannot use ${where}: auto_offset_reset "${reset}" is no time; write latest, earliest, or such as 2026-01-31T00:00:00Z`)
  return time
}
