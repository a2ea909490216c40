import { FILE_PATH, Secret } from 'svcdb'
import { type Static, Type } from 'svcdb/lib/schema'

const text = (description: string, more: object = {}) => Type.Optional(Type.String({ minLength: 1, maxLength: 1024, description, ...more }))
const KIB = 1024
const MIB = 1024 * KIB
const TOPIC = { minLength: 1, maxLength: 249, pattern: '^[A-Za-z0-9._-]+$' }

/** How brokers are reached: of a connector, and of whatever else has to do with them. */
export const accessKeys = {
  brokers: text('Brokers to begin with, host:port, with commas between', { maxLength: 4096 }),
  client_id: text('How brokers know this connector in their logs and quotas; default svc-<name>', { maxLength: 128 }),
  security_protocol: Type.Enum(['PLAINTEXT', 'SSL', 'SASL_PLAINTEXT', 'SASL_SSL'], { default: 'PLAINTEXT', description: 'How brokers are spoken to' }),
  sasl_mechanism: Type.Optional(
    Type.Enum(['PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512'], { description: 'With SASL_PLAINTEXT and SASL_SSL: how the name is proven' }),
  ),
  sasl_username: text('User name'),
  sasl_password: Type.Optional(Secret.schema({ description: 'Password' })),
  credential_file: text('File of JSON with username and password, in place of those two; read at each connection', FILE_PATH),
  ca_cert: text('With SSL and SASL_SSL: PEM file of the authorities that brokers are checked by; default those of Node.js', FILE_PATH),
  client_cert: text('With SSL and SASL_SSL: PEM file of the certificate that is shown to brokers', FILE_PATH),
  client_key: text('PEM file of its key', FILE_PATH),
}

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
  fetch_wait_ms: Type.Integer({ default: 500, minimum: 1, maximum: 30_000, description: 'How long a broker holds a fetch while there is nothing' }),
  max_in_flight: Type.Integer({ default: 10_000, minimum: 1, maximum: 1_000_000, description: 'Records that are taken and not settled' }),
  max_in_flight_bytes: Type.Integer({ default: 16 * MIB, minimum: 64 * KIB, maximum: 1024 * MIB, description: 'Bytes of those' }),
  max_message_bytes: Type.Integer({ default: 16 * MIB, minimum: KIB, maximum: 256 * MIB, description: 'Largest record; one that is larger is a dead letter' }),
  dead_letter_topic: text('Topic for records that could not be stored, in place of the file', TOPIC),
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
})

export type KafkaConfig = Static<typeof configSchema>
export type ConnectorConfig = Omit<KafkaConfig, 'connector'> & { name: string }

/** Where and as whom: of the keys `accessKeys`. */
export type AccessConfig = Pick<ConnectorConfig, 'name' | keyof typeof accessKeys>

export const DEFAULT_NAME = 'kafka-default'

/** @throws Error that says which key of which connector is wrong. */
export function connectorsOf({ connector, ...own }: KafkaConfig): ConnectorConfig[] {
  const all = [...(own.brokers === undefined ? [] : [{ ...own, name: DEFAULT_NAME }]), ...connector]
  if (own.brokers === undefined && own.topics.length > 0) throw new Error('cannot use kafka.topics without kafka.brokers: say where the brokers are')
  if (all.length === 0) throw new Error('cannot use the section [kafka]: it has no connector; add kafka.brokers and kafka.topics, or leave the section out')
  for (const each of all) {
    const where = each.name === DEFAULT_NAME ? 'kafka' : `kafka.connector "${each.name}"`
    checkAccess(where, each)
    if (each.topics.length === 0) throw new Error(`cannot use ${where}: it has no topics; add those to consume`)
    beginOf(each, where)
    if (each.dead_letter_topic !== undefined && each.topics.includes(each.dead_letter_topic))
      throw new Error(`cannot use ${where}: dead_letter_topic "${each.dead_letter_topic}" is one of its topics; choose another`)
  }
  return all
}

/** @param where the section, for the message. @throws Error that says which keys contradict each other. */
export function checkAccess(where: string, config: Omit<AccessConfig, 'name'>): void {
  const { brokers, security_protocol: protocol, sasl_mechanism, sasl_username, sasl_password, credential_file, ca_cert, client_cert, client_key } = config
  if (brokers === undefined) throw new Error(`cannot use ${where}: it has no brokers; say where they are`)
  const wrong = brokersOf(brokers).find((broker) => !isAddress(broker))
  if (wrong !== undefined) throw new Error(`cannot use ${where}: broker "${wrong}" is no host:port`)
  const hasSasl = protocol.startsWith('SASL_')
  const hasTls = protocol.endsWith('SSL')
  const named = (what: Record<string, unknown>): string | undefined => Object.keys(what).find((key) => what[key] !== undefined)
  const needless = named({ sasl_mechanism, sasl_username, sasl_password, credential_file })
  if (!hasSasl && needless !== undefined)
    throw new Error(`cannot use ${where}: ${needless} has no use with security_protocol ${protocol}; set SASL_SSL or SASL_PLAINTEXT, or leave it out`)
  if (hasSasl && sasl_mechanism === undefined)
    throw new Error(`cannot use ${where}: security_protocol ${protocol} needs sasl_mechanism: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512`)
  if (credential_file !== undefined && (sasl_username !== undefined || sasl_password !== undefined))
    throw new Error(`cannot use ${where}: credential_file has username and password; leave sasl_username and sasl_password out`)
  if (hasSasl && credential_file === undefined && (sasl_username === undefined || sasl_password === undefined))
    throw new Error(`cannot use ${where}: security_protocol ${protocol} needs credential_file, or sasl_username and sasl_password`)
  const certificate = named({ ca_cert, client_cert, client_key })
  if (!hasTls && certificate !== undefined)
    throw new Error(`cannot use ${where}: ${certificate} has no use with security_protocol ${protocol}; set SSL or SASL_SSL, or leave it out`)
  if ((client_cert === undefined) !== (client_key === undefined))
    throw new Error(`cannot use ${where}: client_cert and client_key belong together; give both or none`)
}

export function brokersOf(brokers: string): string[] {
  return brokers.split(',').map((broker) => broker.trim())
}

function isAddress(broker: string): boolean {
  const port = Number(/^(?:[^\s:[\]/]+|\[[0-9a-fA-F:.]+\]):(\d{1,5})$/.exec(broker)?.[1])
  return port >= 1 && port <= 65_535
}

/** Milliseconds since the Unix epoch for a time. @throws Error for what is none. */
export function beginOf({ auto_offset_reset: reset }: ConnectorConfig, where: string): 'latest' | 'earliest' | number {
  if (reset === 'latest' || reset === 'earliest') return reset
  const time = Date.parse(reset)
  if (Number.isNaN(time))
    throw new Error(`cannot use ${where}: auto_offset_reset "${reset}" is no time; write latest, earliest, or such as 2026-01-31T00:00:00Z`)
  return time
}
