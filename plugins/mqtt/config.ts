import { isIPv6 } from 'node:net'
import { FILE_PATH, Secret } from 'svcdb'
import { type Static, Type } from 'svcdb/lib/schema'

const text = (description: string, more: object = {}) => Type.Optional(Type.String({ minLength: 1, maxLength: 1024, description, ...more }))
const KIB = 1024
const MIB = 1024 * KIB

/** Of one connector. */
const keys = {
  broker: text('Host of the broker, or a URL: mqtt:// or mqtts://, with its port or without'),
  port: Type.Optional(Type.Integer({ minimum: 1, maximum: 65_535, description: 'Port of the broker; default 1883, with TLS 8883' })),
  namespace: Type.String({ default: 'default', description: 'Where points go; under server.multi_tenancy one that exists' }),
  topics: Type.Array(Type.String({ minLength: 1, maxLength: 1024, description: 'A topic, with wildcards + and #, also as $share/group/topic' }), {
    default: [],
    maxItems: 1000,
    description: 'Topics to subscribe to',
  }),
  format: Type.String({
    default: 'json',
    description: 'Format of messages: json, line_protocol, prometheus_remote_write, otlp, sparkplug_b; its plugin must be selected',
  }),
  qos: Type.Integer({ default: 1, minimum: 0, maximum: 2, description: 'Quality of service that is subscribed with; with 0 the broker sends nothing again' }),
  protocol_version: Type.Enum(['3.1.1', '5'], { default: '3.1.1', description: 'Version of MQTT' }),
  client_id: text(
    'How the broker knows this connector, and keeps what it has not acknowledged; default svc-<name>-<host name>, and svc-<name> where nodes share their state',
    { maxLength: 128 },
  ),
  username: text('User name'),
  password: Type.Optional(Secret.schema({ description: 'Password' })),
  credential_file: text('File of JSON with username and password, in place of those two', FILE_PATH),
  ca_cert: text('PEM file of the authorities that the broker is checked by; switches TLS on', FILE_PATH),
  client_cert: text('PEM file of the certificate that is shown to the broker; switches TLS on', FILE_PATH),
  client_key: text('PEM file of its key', FILE_PATH),
  topic_measurement_map: Type.Record(Type.String(), Type.String({ minLength: 1, description: 'Measurement' }), {
    default: {},
    description: 'Topic, which may have wildcards, to the measurement of points that name none; without it the last level of the topic',
  }),
  tags_from_topic: Type.Array(Type.String({ minLength: 1, maxLength: 1024, description: 'Such as site/+line/+machine: +line is a tag of that name' }), {
    default: [],
    maxItems: 100,
    description: 'Tags out of the levels of topics; the first pattern that fits counts',
  }),
  retained: Type.Enum(['store', 'ignore'], {
    default: 'store',
    description: 'What becomes of messages that the broker had kept before the subscription: store, or ignore (they come again at each connection)',
  }),
  time_property: text(
    'MQTT 5: user property with the time of points that have none: nanoseconds since the Unix epoch, or RFC 3339; default when the message came',
  ),
  backfill: Type.Boolean({ default: false, description: 'Admits points older than the live window' }),
  status_topic: text('Topic where "online" is published and kept when the connector is connected, and "offline" by the broker when it is gone'),
  keep_alive_secs: Type.Integer({ default: 60, minimum: 5, maximum: 3600, description: 'How often the connection is tried while nothing comes' }),
  reconnect_ms: Type.Integer({ default: 5000, minimum: 100, maximum: 3_600_000, description: 'Wait before a connection is tried again' }),
  session_expiry_secs: Type.Integer({
    default: 604_800,
    minimum: 0,
    maximum: 4_294_967_294,
    description: 'MQTT 5: how long the broker keeps what comes while the connector is away',
  }),
  max_in_flight: Type.Integer({ default: 10_000, minimum: 1, maximum: 65_535, description: 'Messages that are taken and not acknowledged' }),
  max_in_flight_bytes: Type.Integer({ default: 16 * MIB, minimum: 64 * KIB, maximum: 1024 * MIB, description: 'Bytes of those' }),
  max_message_bytes: Type.Integer({ default: MIB, minimum: KIB, maximum: 256 * MIB, description: 'Largest message; one that is larger is a dead letter' }),
  dead_letter_bytes: Type.Integer({
    default: 64 * MIB,
    minimum: 64 * KIB,
    maximum: 1024 * MIB,
    description: 'Bytes of the file of messages that could not be stored, <data_dir>/dead-letters/<name>.jsonl, and of the one before it, each',
  }),
}

const NAME = { minLength: 1, maxLength: 64, pattern: '^[A-Za-z0-9][A-Za-z0-9_.-]*$' }

export const configSchema = Type.Object({
  ...keys,
  connector: Type.Array(Type.Object({ name: Type.String({ ...NAME, description: 'Name in metrics and listings; unique' }), ...keys }), {
    default: [],
    maxItems: 100,
    description: 'Further connectors, each with the keys above and a name; those of the section itself are the connector mqtt-default',
  }),
})

type MqttConfig = Static<typeof configSchema>
export type ConnectorConfig = Omit<MqttConfig, 'connector'> & { name: string }

const DEFAULT_NAME = 'mqtt-default'

/**
 * Where the broker is: the default port is that of MQTT, or of MQTT over TLS. A host is also an IPv6 address, in brackets where a port follows.
 * @throws Error that says what is wrong with it.
 */
export function addressOf({ broker = '', port, ca_cert, client_cert }: ConnectorConfig): { protocol: 'mqtt' | 'mqtts'; host: string; port: number } {
  const [, scheme, rest = ''] = /^(?:(mqtts?):\/\/)?([^/\s]+)\/?$/.exec(broker) ?? []
  const [, name, digits] = isIPv6(rest) ? [rest, rest] : (/^([^:[\]]+|\[.+\])(?::(\d+))?$/.exec(rest) ?? [])
  const host = name?.replace(/^\[(.+)\]$/, '$1')
  if (host === undefined || (host !== name && !isIPv6(host))) throw new Error(`broker "${broker}" is no host and no URL of mqtt:// or mqtts://`)
  const given = digits === undefined ? port : Number(digits)
  if (given !== undefined && (given < 1 || given > 65_535)) throw new Error(`port "${digits}" of broker "${broker}" is none: 1 to 65535`)
  if (port !== undefined && given !== port) throw new Error(`broker "${broker}" has another port than the key port, which is ${port}; give one of them`)
  const secure = scheme === 'mqtts' || (scheme === undefined && (ca_cert !== undefined || client_cert !== undefined))
  return { protocol: secure ? 'mqtts' : 'mqtt', host, port: given ?? (secure ? 8883 : 1883) }
}

/** @throws Error that says which key of which connector is wrong. */
export function connectorsOf({ connector, ...own }: MqttConfig): ConnectorConfig[] {
  const all = [...(own.broker === undefined ? [] : [{ ...own, name: DEFAULT_NAME }]), ...connector]
  if (own.broker === undefined && own.topics.length > 0) throw new Error('cannot use mqtt.topics without mqtt.broker: say where the broker is')
  if (all.length === 0) throw new Error('cannot use the section [mqtt]: it has no connector; add mqtt.broker and mqtt.topics, or leave the section out')
  for (const config of all) {
    const { name, broker, topics, time_property, protocol_version, client_cert, client_key, credential_file, username, password } = config
    const where = name === DEFAULT_NAME ? 'mqtt' : `mqtt.connector "${name}"`
    if (broker === undefined) throw new Error(`cannot use ${where}: it has no broker; say where the broker is`)
    // It is not shown: with the user there may be a password.
    if (broker.includes('@')) throw new Error(`cannot use ${where}: its broker has a user; write username and password as keys of their own`)
    try {
      addressOf(config)
    } catch (error) {
      throw new Error(`cannot use ${where}: ${(error as Error).message}`)
    }
    if (topics.length === 0) throw new Error(`cannot use ${where}: it has no topics; add those to subscribe to`)
    if (time_property !== undefined && protocol_version !== '5')
      throw new Error(`cannot use ${where}: time_property is a user property of MQTT 5; set protocol_version = "5"`)
    if ((client_cert === undefined) !== (client_key === undefined))
      throw new Error(`cannot use ${where}: client_cert and client_key belong together; give both or none`)
    if (credential_file !== undefined && (username !== undefined || password !== undefined))
      throw new Error(`cannot use ${where}: credential_file has username and password; leave those two out`)
    if (password !== undefined && username === undefined) throw new Error(`cannot use ${where}: there is a password and no username`)
  }
  return all
}
