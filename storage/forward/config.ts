/** The [database] section of the forwarding engine. */
import { FILE_PATH, Secret } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { type Static, Type } from 'svcdb/lib/schema'
import { admissionKeys } from '../common/limits.ts'
import type { FsyncPolicy } from '../common/log/log.ts'
import { SendTimes } from './send-times.ts'

const KIB = 1024
const MIB = 1024 * KIB
/** What a header can carry. */
const HEADER = /^[\x20-\x7e]*$/
const text = (description: string, more: object = {}) => Type.Optional(Type.String({ minLength: 1, maxLength: 1024, description, ...more }))

const upstream = Type.Object({
  name: Type.String({
    default: 'upstream',
    minLength: 1,
    maxLength: 64,
    pattern: '^[A-Za-z0-9][A-Za-z0-9_-]*$',
    description: 'Name in metrics, logs and files; unique',
  }),
  url: Type.String({ minLength: 1, maxLength: 1024, description: 'Where its plugin grpc listens: http://host:4243, with TLS https://host:4243' }),
  api_key: Type.Optional(Secret.schema({ description: 'Key or token that is shown to it; best taken from the environment' })),
  api_key_file: text('File of that key, read again for each request', FILE_PATH),
  ca_cert: text('PEM file of the authorities that it is checked by; default those of the system', FILE_PATH),
  client_cert: text('PEM file of the certificate that is shown to it', FILE_PATH),
  client_key: text('PEM file of the key of that certificate', FILE_PATH),
})

const forward = Type.Object({
  upstream: Type.Array(upstream, { default: [], maxItems: 16, description: 'Nodes that take the points' }),
  mode: Type.Enum(['failover', 'copy'], {
    default: 'failover',
    description: 'With several upstreams: failover sends to the first that takes points, copy to each of them, which have a place of their own in the queue',
  }),
  failover_after_secs: Type.Integer({ default: 10, minimum: 0, maximum: 86_400, description: 'How long an upstream may fail before the next is tried' }),
  failback_secs: Type.Integer({ default: 300, minimum: 1, maximum: 86_400, description: 'How long another is used before the first is tried again' }),
  max_size: Type.Integer({ default: 1024 * MIB, minimum: 4 * MIB, maximum: 2 ** 46, description: 'Bytes of the queue; when_full says what happens above' }),
  max_age_secs: Type.Integer({
    default: 0,
    minimum: 0,
    maximum: 315_360_000,
    description: 'Age from which on points that were not sent are dropped and counted; 0 = none',
  }),
  when_full: Type.Enum(['refuse', 'drop_oldest'], {
    default: 'refuse',
    description: 'refuse: writes answer 507 STORAGE_FULL until there is room; drop_oldest: the oldest points that wait are dropped and counted',
  }),
  file_size: Type.Integer({
    default: 8 * MIB,
    minimum: 64 * KIB,
    maximum: 256 * MIB,
    description: 'Bytes after which a new file of the queue begins: what is dropped, or removed when it was sent, at once',
  }),
  compression: Type.Enum(['zstd', 'gzip', 'none'], { default: 'zstd', description: 'Of what is sent' }),
  batch_points: Type.Integer({
    default: 10_000,
    minimum: 1,
    maximum: 1_000_000,
    description: 'Points of one request; one that the upstream finds too large is divided',
  }),
  batch_bytes: Type.Integer({ default: MIB, minimum: KIB, maximum: 64 * MIB, description: 'Bytes of the queue that go into one request, about' }),
  batch_interval_ms: Type.Integer({ default: 500, minimum: 0, maximum: 3_600_000, description: 'How long points wait for others to be sent with' }),
  timeout_secs: Type.Integer({
    default: 60,
    minimum: 1,
    maximum: 3600,
    description:
      'How long an answer may take before the connection is given up and the request repeated; from the second time on with half the points, until they fit',
  }),
  max_pause_secs: Type.Integer({
    default: 60,
    minimum: 1,
    maximum: 86_400,
    description: 'Longest pause between two tries; the first is half a second, each next twice as long',
  }),
  max_parked_namespaces: Type.Integer({
    default: 1000,
    minimum: 1,
    maximum: 100_000,
    description:
      'Namespaces that may wait for themselves while others go on, of those that the upstream has taken nothing of since the start; points of further ones are set aside. Some 300 bytes each',
  }),
  backfill_after_secs: Type.Integer({
    default: 3600,
    minimum: 0,
    maximum: 31_536_000,
    description:
      "Points that waited for longer are sent as a backfill, for the upstream's live window has moved on; younger ones when it refuses them as too old",
  }),
  max_bandwidth: Type.Integer({
    default: 0,
    minimum: 0,
    maximum: 2 ** 40,
    description: 'Bytes a second that are sent to an upstream, compressed; 0 = no limit',
  }),
  send_between: Type.Array(Type.String({ minLength: 1, maxLength: 64 }), {
    default: [],
    maxItems: 50,
    description: 'Times at which points are sent, for links that cost: "22:00-06:00", "Sat-Sun 00:00-24:00"; none = always',
  }),
  time_zone: Type.String({ default: 'UTC', minLength: 1, maxLength: 64, description: 'Of send_between, such as Europe/Berlin' }),
  dead_letter_bytes: Type.Integer({
    default: 64 * MIB,
    minimum: 64 * KIB,
    maximum: 1024 * MIB,
    description: 'Bytes of the file of points that the upstream refused, <data_dir>/dead-letters/forward-<upstream>.jsonl, and of the one before it, each',
  }),
  max_series_cached: Type.Integer({
    default: 100_000,
    minimum: 16,
    maximum: 10_000_000,
    description: 'Series known at a time; with another the table begins anew, which costs time and nothing else',
  }),
  max_cached_bytes: Type.Integer({
    default: 16 * MIB,
    minimum: 64 * KIB,
    maximum: 2 ** 34,
    description: 'Bytes of the keys of those series, and of fields (100 and the name each), known at a time, about; with more the table begins anew',
  }),
})

const { shard_duration_secs, ooo_shard_tolerance, future_write_tolerance_secs, max_name_bytes, max_tag_value_bytes } = admissionKeys
const { max_tags_per_series, max_fields_per_measurement, max_string_bytes } = admissionKeys

export const configSchema = Type.Object({
  data_dir: Type.String({ ...FILE_PATH, minLength: 1, default: './svc-data', description: 'Where the queue lies; one server at a time' }),
  wal_fsync_policy: Type.String({
    default: 'per_batch',
    pattern: '^(per_write|per_batch|periodic_[1-9][0-9]{0,5})$',
    description:
      'When a write is on disk: per_batch (one fsync for all that wait, before the answer), per_write (one each), periodic_<ms> (after the answer; a power cut can lose that long)',
  }),
  shard_duration_secs,
  ooo_shard_tolerance,
  future_write_tolerance_secs,
  max_name_bytes,
  max_tag_value_bytes,
  max_tags_per_series,
  max_fields_per_measurement,
  max_string_bytes,
  forward,
})

export type ForwardSection = Static<typeof configSchema>
export type ForwardConfig = Static<typeof forward>
export type UpstreamConfig = Static<typeof upstream>

/** @throws CONFIG_ERROR that says which key is wrong. */
export function check(config: Record<string, unknown>): void {
  const refuse = (text: string) => new SvcError('CONFIG_ERROR', text)
  const { forward } = config as ForwardSection
  if (forward.upstream.length === 0)
    throw refuse('cannot forward: there is no upstream; add [[database.forward.upstream]] with the url of a node whose plugin grpc listens')
  const names = new Set<string>()
  for (const { name, url, api_key, api_key_file, ca_cert, client_cert, client_key } of forward.upstream) {
    const where = `[[database.forward.upstream]] "${name}"`
    if (names.has(name)) throw refuse(`cannot name two upstreams "${name}": give each a name of its own`)
    names.add(name)
    if (url.includes('@')) throw refuse(`cannot use ${where}: its url has a user; leave it out, and write a key as api_key`)
    if (!/^https?:\/\/[^/?#@\s]+\/?$/.test(url) || !URL.canParse(url))
      throw refuse(`cannot use ${where}: url "${url}" is none of http://host:port or https://host:port`)
    if (url.startsWith('http:') && (ca_cert ?? client_cert) !== undefined)
      throw refuse(`cannot use ${where}: ca_cert and client_cert need TLS; begin the url with https://`)
    if ((client_cert === undefined) !== (client_key === undefined))
      throw refuse(`cannot use ${where}: client_cert and client_key belong together; give both or none`)
    // What comes of it otherwise is a refusal of each request, as if something were wrong with the points.
    if (api_key !== undefined && !HEADER.test(api_key.reveal().trim()))
      throw refuse(`cannot use ${where}: its api_key has characters other than printable ASCII; write the key as the upstream has it`)
    if (api_key !== undefined && api_key_file !== undefined) throw refuse(`cannot use ${where}: api_key and api_key_file say the same; give one`)
  }
  if (forward.file_size * 4 > forward.max_size)
    throw refuse(
      `cannot use database.forward.file_size ${forward.file_size}: a quarter of max_size ${forward.max_size} at most, for files are dropped and removed whole`,
    )
  new SendTimes(forward.send_between, forward.time_zone)
}

/** For `svc check`. */
export function explain(config: Record<string, unknown>): string[] {
  const { forward } = config as ForwardSection
  const to = forward.upstream.map(({ name, url }) => `${name} (${url})`).join(forward.mode === 'copy' ? ' and ' : ', else ')
  return [
    `points go to a queue of at most ${forward.max_size} bytes, and from there to ${to}`,
    'nothing can be queried, deleted or subscribed to here: ask the upstream',
  ]
}

export function policyOf(text: string): FsyncPolicy {
  if (text === 'per_write' || text === 'per_batch') return { kind: text }
  return { kind: 'periodic', ms: Number(text.slice('periodic_'.length)) }
}
