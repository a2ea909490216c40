import { type Static, Type } from 'svcdb/lib/schema'

const TAG_KEY = '^(?!_time$|_series$)[^\\u0000-\\u0020]*$'

export const configSchema = Type.Object({
  database: Type.Union([Type.Literal('ignored'), Type.Literal('tag'), Type.Literal('namespace')], {
    default: 'ignored',
    description:
      'What `db`, `bucket` and `rp` of a write mean: ignored (nothing), tag (a tag of each point) or namespace (the namespace, as X-Namespace would; needs server.multi_tenancy)',
  }),
  database_tag: Type.String({
    default: 'db',
    minLength: 1,
    maxLength: 255,
    pattern: TAG_KEY,
    description: 'With `tag`: the key of the tag that `db` or `bucket` becomes',
  }),
  retention_policy_tag: Type.String({
    default: '',
    maxLength: 255,
    pattern: TAG_KEY,
    description: 'With `tag`: the key of the tag that `rp` becomes; empty = `rp` is ignored',
  }),
  url_password: Type.Boolean({
    default: true,
    description:
      'Whether `p` in the URL of /write and /query is the key or token of a call without the header Authorization, as InfluxDB 1 has it; proxies may log it',
  }),
  max_fields_per_point: Type.Integer({ default: 1024, minimum: 1, maximum: 65_536, description: 'Fields of one line; a line with more is refused' }),
  max_query_statements: Type.Integer({
    default: 100,
    minimum: 1,
    maximum: 10_000,
    description: 'Statements of one request to /query that are answered; the next one has an error as its result',
  }),
  max_reported_errors: Type.Integer({
    default: 16,
    minimum: 1,
    maximum: 1000,
    description: 'Refused lines of one write whose reasons are kept; the others are counted',
  }),
  series_cache_bytes: Type.Integer({
    default: 268_435_456,
    minimum: 65_536,
    maximum: 4_294_967_296,
    description:
      'Memory for series keys, as written, that are recognised without being parsed again, for each namespace (with `tag`: each database); emptied when full',
  }),
  max_cached_namespaces: Type.Integer({
    default: 16,
    minimum: 1,
    maximum: 10_000,
    description: 'Namespaces (with `tag`: databases) that have a series cache at one time',
  }),
})

export type LineProtocolConfig = Static<typeof configSchema>
