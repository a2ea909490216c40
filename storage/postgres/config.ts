/** The [state] section with engine = "postgres". */
import { Secret } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { type Static, Type } from 'svcdb/lib/schema'
import { didYouMean } from 'svcdb/lib/text'

export const configSchema = Type.Object({
  url: Secret.schema({
    minLength: 1,
    description:
      'postgres://user:password@host:5432/database; several hosts with commas, of which the first that takes writes is used; ?sslmode=verify-full&sslrootcert=FILE for TLS. The password may come from PGPASSWORD or ~/.pgpass',
  }),
  schema: Type.String({
    default: 'svc',
    pattern: '^[a-z_][a-z0-9_]{0,62}$',
    description: 'Schema of the tables. Nodes with the same schema share one state; two clusters in one database need two',
  }),
  max_connections: Type.Integer({ default: 8, minimum: 2, maximum: 200, description: 'Connections that this node opens at most' }),
  connect_timeout_secs: Type.Number({ default: 5, minimum: 0.1, maximum: 300, description: 'Time limit of one connection attempt' }),
  statement_timeout_secs: Type.Number({ default: 10, minimum: 0.1, maximum: 3600, description: 'Time limit of one statement, waiting for others included' }),
  retry_secs: Type.Number({
    default: 10,
    minimum: 0,
    maximum: 3600,
    description: 'How long a call goes on trying when PostgreSQL is away or fails over; then 503 with Retry-After',
  }),
})
export type PostgresConfig = Static<typeof configSchema>

/** What stands behind the "?": of the driver, and of libpq what the driver can do without. */
const OPTIONS = [
  ...['ssl', 'sslmode', 'sslrootcert', 'sslcert', 'sslkey', 'sslnegotiation', 'uselibpqcompat', 'user', 'password', 'host', 'port', 'database'],
  ...[
    'options',
    'application_name',
    'fallback_application_name',
    'client_encoding',
    'connect_timeout',
    'target_session_attrs',
    'gssencmode',
    'channel_binding',
  ],
  ...['statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout', 'query_timeout'],
  ...['keepalives', 'keepalives_idle', 'keepalives_interval', 'keepalives_count', 'tcp_user_timeout', 'load_balance_hosts'],
]
const SSL_MODES = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full', 'no-verify']

const SCHEME = /^postgres(ql)?:\/\//

/** One URL for each host of a list. @throws CONFIG_ERROR in words that show no secret. */
export function urlsOf(url: string): string[] {
  const parts = /^(postgres(?:ql)?:\/\/)(?:([^@/?]*)@)?([^/?#]+)(.*)$/s.exec(url)
  if (!SCHEME.test(url) || parts === null) throw bad('it is not of the form postgres://user:password@host:5432/database')
  const [, scheme, user, hosts, rest] = parts
  return hosts.split(',').map((host) => {
    const one = `${scheme}${user === undefined ? '' : `${user}@`}${host}${rest}`
    const parsed = URL.canParse(one) ? new URL(one) : undefined
    if (parsed === undefined || host === '') throw bad('a host is none, or the user or password has characters that need %-encoding')
    if (parsed.pathname.length < 2) throw bad('it names no database; put /database behind the host')
    checkOptions(parsed.searchParams)
    return one
  })
}

/** One that is mistyped would be ignored, and a connection go without TLS. An unknown name may be a part of a password, and is not shown. */
function checkOptions(options: URLSearchParams): void {
  for (const name of options.keys())
    if (!OPTIONS.includes(name)) throw bad(`an option behind the "?" is unknown; ${didYouMean(name, OPTIONS, `the options are ${OPTIONS.join(', ')}`)}`)
  const mode = options.get('sslmode')
  if (mode !== null && !SSL_MODES.includes(mode)) throw bad(`sslmode is one of ${SSL_MODES.join(', ')}`)
}

const bad = (why: string): SvcError => new SvcError('CONFIG_ERROR', `cannot use "state.url": ${why}`)

/** @throws CONFIG_ERROR */
export function check(config: Record<string, unknown>): void {
  urlsOf((config as PostgresConfig).url.reveal())
}

/** For `svc check`. */
export function explain(config: Record<string, unknown>): string[] {
  const { url, schema } = config as PostgresConfig
  const at = urlsOf(url.reveal()).map((one) => new URL(one))
  const plain = at.some(({ hostname, searchParams }) => !LOCAL.test(hostname) && !/^(require|verify-ca|verify-full)$/.test(searchParams.get('sslmode') ?? ''))
  return [
    `state: PostgreSQL at ${at.map(({ host }) => host).join(', ')}, database ${decodeURIComponent(at[0].pathname.slice(1))}, schema ${schema}`,
    ...(plain ? ['state: the connection is not encrypted; add ?sslmode=verify-full to state.url'] : []),
  ]
}

const LOCAL = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/
