/** The kernel's own sections, and where environment variables and flags go. A plugin's section is described by the plugin. */

import { LISTENS } from '../lib/network/index.ts'
import { type Static, Type } from '../lib/schema/index.ts'
import { LOG_FORMATS, LOG_LEVELS } from '../log.ts'
import { OWN_STATE } from '../storage/state-engine.ts'
import { FILE_PATH } from './file-path.ts'
import { alsoNamed } from './names.ts'

const seconds = (value: number, description: string, minimum = 0) => Type.Number({ default: value, minimum, maximum: 86_400, description })
const count = (value: number, minimum: number, maximum: number, description: string) => Type.Integer({ default: value, minimum, maximum, description })

export const serverSchema = Type.Object({
  http_addr: Type.String({
    settable: { flag: 'bind', env: ['SVC_BIND', 'SVC_HTTP_ADDR'] },
    ...LISTENS,
    default: '127.0.0.1:8086',
    description: 'Address of the HTTP listener, host:port; port 0 takes any free one',
  }),
  allow_open: Type.Boolean({
    default: false,
    description: 'Lets a node on which nothing authenticates listen on other addresses than 127.0.0.1, ::1 and localhost; without it the start is refused',
  }),
  allowed_hosts: Type.Array(Type.String({ pattern: '^(?:\\*|[^:/\\s]+)$' }), {
    default: [],
    description:
      'Names, without port, that a node on which nothing authenticates answers to beside addresses, localhost and that of public_url; "*" = any, which lets web pages reach it by DNS rebinding',
  }),
  footprint: Type.Enum(['auto', 'usual', 'small'], {
    default: 'auto',
    description:
      'Memory of the process: small sets what V8, malloc and libuv keep as low as a collector at the edge can do with, for some processor time; auto is small with [database] engine = "forward". Read from the file only',
  }),
  public_url: Type.Optional(
    Type.String({
      pattern: '^https?://[^@]*$',
      description: 'URL under which clients reach the server, without user and password; named in the OpenAPI description',
    }),
  ),
  metrics_path: Type.String({ default: '/metrics', pattern: '^/[\\w.~/-]+$', description: 'Path of the Prometheus exposition' }),
  metrics_require_auth: Type.Boolean({ default: true, description: 'false adds metrics_path to auth.exempt_paths' }),
  max_connections: count(
    10_000,
    1,
    1_000_000,
    'Connections of each listener at one time (of each address of "localhost"), at most a quarter of the files that the process may open, and an equal share of half of them where there are more than two listeners; further ones are closed at once. Of the last quarter of the places, 512 at most, those without a request under way make room for new ones, that first which has waited longest',
  ),
  max_body_size: count(10_485_760, 1024, 1_073_741_824, 'Bytes of a request body, also after decompression; above: 413'),
  max_control_body_size: count(
    1_048_576,
    1024,
    1_073_741_824,
    'The same for bodies that carry no points to write, such as statements, plans and deletes, and for such requests over gRPC; above: 413',
  ),
  max_body_memory: count(
    268_435_456,
    1_048_576,
    1_099_511_627_776,
    'Bytes of the bodies of all HTTP requests under way, as sent and decompressed, without those below 8 KiB; above: 503. What other namespaces have counts half; not less than max_body_size',
  ),
  max_answer_memory: count(
    536_870_912,
    1_048_576,
    1_099_511_627_776,
    'Bytes of the answers of all HTTP requests that are made and not taken by their clients, without those below 8 KiB; above: connections are closed, of the namespace that has most those first that have taken nothing for longest',
  ),
  max_held_memory: count(
    0,
    0,
    1_099_511_627_776,
    'Bytes that queries of one query thread hold together, about, until their clients have taken the answers: rows (native, gRPC Query, views of rollups), values, samples and label sets of PromQL (from 1 MiB on); 0 = as much as database.per_query_memory_limit, 256 MiB where the engine has none. From half of it on those of a namespace wait for one another, within their time limits; above: 503 for those of the namespace that has most whose clients take nothing. A query that is the only one has limits of its own',
  ),
  max_body_depth: count(64, 4, 10_000, 'Arrays and objects within one another in a JSON body without points; above: 400'),
  max_body_members: count(16_384, 16, 10_000_000, 'Members and elements of a JSON body without points, and fields of a form; above: 400'),
  compression_min_bytes: count(
    1024,
    0,
    1_073_741_824,
    'Answers of text or JSON of at least so many bytes, and those that are streamed, are compressed for clients that accept zstd or gzip; 0 = none',
  ),
  log_format: Type.Enum([...LOG_FORMATS], {
    settable: { flag: 'log-format', env: ['SVC_LOG_FORMAT'] },
    default: 'text',
    description: 'text, json, or compact (text without time stamps, for a journal)',
  }),
  log_level: Type.Enum([...LOG_LEVELS], {
    settable: { flag: 'log-level', env: ['SVC_LOG_LEVEL'] },
    default: 'info',
    description: 'trace, debug, info, warn or error; changed at run time by PUT /api/v1/admin/log-level',
  }),
  cors_allowed_origins: Type.Array(Type.String(), {
    default: [],
    description: 'Origins that browsers may call from, as they send them: scheme, host and port, such as "https://grafana.example"',
  }),
  allow_unsafe_cors: Type.Boolean({ default: false, description: 'Allows "*" in cors_allowed_origins' }),
  backup_root: Type.Optional(
    Type.String({
      ...FILE_PATH,
      minLength: 1,
      maxLength: 4096,
      description: 'Directory that backups and restored data directories lie in; default `backups` in the data directory',
    }),
  ),
  multi_tenancy: Type.Boolean({ default: false, description: 'Keeps the data of each namespace (header X-Namespace) apart' }),
  max_write_batch_size: count(100_000, 1, 10_000_000, 'Points of one JSON or line protocol write; above: 400'),
  write_timeout_secs: seconds(30, 'Time limit of one write; 0 = none'),
  dedup_window_secs: seconds(300, 'How long an Idempotency-Key is remembered; 0 = keys are ignored'),
  max_dedup_entries: count(
    1_000_000,
    4,
    100_000_000,
    'Idempotency keys remembered at once, each in some 150 bytes; when full the oldest goes of the namespace that has most',
  ),
  sql_query_timeout_secs: seconds(30, 'Time limit of one SQL statement; 0 = none'),
  sql_max_rows: count(100_000, 1, 100_000_000, 'Rows of one query answer'),
  query_timeout_secs: Type.Number({
    ...alsoNamed('database.query_timeout_secs'),
    default: 60,
    minimum: 0,
    maximum: 86_400,
    description: 'Time limit of one query that is a plan (native, gRPC Query); 0 = none. Also database.query_timeout_secs',
  }),
  prom_query_timeout_secs: seconds(30, 'Time limit of one PromQL query, discovery or remote read; 0 = none'),
  prom_series_limit: count(10_000, 1, 100_000_000, 'Series, label names or values of one PromQL answer; what is over it is left out, with a warning'),
  prom_max_result_bytes: count(268_435_456, 1024, 17_179_869_184, 'Bytes of one PromQL answer, and of what a remote read holds in memory; above: 422'),
  max_range_query_points: count(11_000, 1, 10_000_000, 'Steps of one PromQL range query; above: 400'),
  keep_alive_timeout_secs: seconds(72, 'Idle connections are closed after this long', 1),
  request_timeout_secs: seconds(
    300,
    'Time limit for receiving one whole request, over gRPC one of a single message; 0 = none. Heads of HTTP requests and TLS handshakes have a minute of it at most',
  ),
  setup_timeout_secs: seconds(10, "Time limit of a plugin's setup", 0.01),
  start_timeout_secs: seconds(600, "Time limit of a plugin's start; the storage replays its log in it", 0.01),
  shutdown_timeout_secs: seconds(
    30,
    'Time in which the server stops: requests in flight have three quarters of it, and one second after it the process is killed',
    0.01,
  ),
})

/** The resolved [server] section: defaults, flags and variables are in it. Units are in the names. */
export type ServerConfig = Static<typeof serverSchema>

/** How long a scheduled run may go on when the server stops: calls were waited for before. */
export const runGraceMs = ({ shutdown_timeout_secs: secs }: Pick<ServerConfig, 'shutdown_timeout_secs'>): number => secs * 150

/** Forward secrecy and authenticated encryption only. HTTP/2 needs the first of TLS 1.2 (RFC 9113, section 9.2.2). */
const CIPHERS = [
  'TLS_AES_256_GCM_SHA384',
  'TLS_CHACHA20_POLY1305_SHA256',
  'TLS_AES_128_GCM_SHA256',
  'ECDHE-ECDSA-AES128-GCM-SHA256',
  'ECDHE-RSA-AES128-GCM-SHA256',
  'ECDHE-ECDSA-AES256-GCM-SHA384',
  'ECDHE-RSA-AES256-GCM-SHA384',
  'ECDHE-ECDSA-CHACHA20-POLY1305',
  'ECDHE-RSA-CHACHA20-POLY1305',
]

export const tlsSchema = Type.Object({
  cert: Type.String({ ...FILE_PATH, settable: { flag: 'tls-cert', env: ['SVC_TLS_CERT'] }, description: 'File of the certificate chain, PEM' }),
  key: Type.String({ ...FILE_PATH, settable: { flag: 'tls-key', env: ['SVC_TLS_KEY'] }, description: 'File of the private key, PEM' }),
  client_ca: Type.Optional(
    Type.String({
      ...FILE_PATH,
      settable: { flag: 'tls-client-ca', env: ['SVC_TLS_CLIENT_CA'] },
      description: "File of the authorities, PEM, one of which must have signed a client's certificate",
    }),
  ),
  client_auth: Type.Enum(['required', 'optional'], {
    default: 'required',
    description: 'With client_ca: whether every client must show a certificate, or may come without one and give other credentials',
  }),
  min_version: Type.Enum(['1.2', '1.3'], { default: '1.2', description: 'Oldest version of TLS that clients may speak' }),
  ciphers: Type.String({
    default: CIPHERS.join(':'),
    minLength: 1,
    maxLength: 4096,
    description: 'Cipher suites as OpenSSL names them, most wanted first; by default those with forward secrecy and authenticated encryption',
  }),
  reload_interval_secs: Type.Number({
    ...seconds(60, 'How often the files are checked for changes; 0 = never'),
    settable: { flag: 'tls-reload-interval-secs', env: ['SVC_TLS_RELOAD_INTERVAL_SECS'] },
  }),
})

/** The resolved [tls] section. */
export type TlsConfig = Static<typeof tlsSchema>

/** The rest of [auth] belongs to the plugins that authenticate. */
export const authSchema = Type.Object({
  exempt_paths: Type.Array(Type.String({ pattern: '^/' }), {
    default: ['/health', '/healthz', '/ready', '/readyz', '/ping', '/-/healthy', '/-/ready'],
    description: 'Paths, of HTTP routes or gRPC methods, that need no credentials: each as it is, or with "*" at its end for all that begin so',
  }),
})
export type AuthConfig = Static<typeof authSchema>

export const DEFAULT_ENGINE = 'embedded'

export const stateSchema = Type.Object({
  engine: Type.String({
    default: OWN_STATE,
    minLength: 1,
    description:
      'Where keys, namespaces, triggers and all that plugins must remember is kept: database (the storage engine has it), postgres, or the path or package of another state store',
  }),
})

/** The engine's schema has the rest of [database]. */
export const engineSchema = Type.Object({
  engine: Type.String({ default: DEFAULT_ENGINE, description: 'Storage engine: a folder of storage/, a relative path, or a package' }),
})
