import { type Static, Type } from 'svcdb/lib/schema'

const count = (value: number, minimum: number, maximum: number, description: string) => Type.Integer({ default: value, minimum, maximum, description })
const MAX_RPS = 1_000_000
const MAX_BURST = 100_000_000
const rate = (value: number, description: string) => count(value, 0, MAX_RPS, description)
const burst = (value: number, description: string) => count(value, 0, MAX_BURST, description)

const limits = Type.Object({
  enabled: Type.Boolean({ default: true, description: 'false = nothing is limited and nobody is banned; trust_proxy_headers still counts' }),
  requests_per_second: rate(100, 'Requests a second from one address, of IPv6 from one /64; 0 = no limit'),
  burst_size: burst(200, 'Requests at once from one address; less than requests_per_second counts as that'),
  default_rps: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: MAX_RPS,
      description: 'Requests a second of one namespace that has no limit of its own; 0 = no limit; default ten times requests_per_second',
    }),
  ),
  tenants: Type.Record(Type.String(), Type.Integer({ minimum: 0, maximum: MAX_RPS }), {
    default: {},
    maxProperties: 100_000,
    description: 'Requests a second by the name of the namespace, such as `acme = 1000`; 0 = no limit',
  }),
  trust_proxy_headers: Type.Boolean({ default: false, description: 'Takes the address of a caller from the header that a proxy sets' }),
  proxy_header: Type.Enum(['x-forwarded-for', 'forwarded', 'x-real-ip'], {
    default: 'x-forwarded-for',
    description: 'The header that the proxy sets: x-forwarded-for, forwarded (RFC 7239) or x-real-ip; others are not looked at, since a caller can send them',
  }),
  trusted_proxies: Type.Array(Type.String({ minLength: 2, maxLength: 64 }), {
    default: [],
    maxItems: 256,
    description: 'Addresses and networks of proxies, such as "10.0.0.0/8"; empty = whoever connects is taken for the one proxy there is',
  }),
  track_auth_failures: Type.Boolean({ default: true, description: 'Bans addresses whose credentials are refused again and again' }),
  max_auth_failures: count(5, 1, 100, 'Refused credentials within an hour that ban the address they came from'),
  lockout_duration_seconds: count(300, 1, 604_800, 'How long a ban lasts'),
  success_resets_failures: Type.Boolean({
    default: true,
    description: 'Accepted credentials clear the count of their address; false where a caller with a key may be an attacker too',
  }),
  ban_exempt: Type.Array(Type.String({ minLength: 2, maxLength: 64 }), {
    default: [],
    maxItems: 256,
    description: 'Addresses and networks that are never banned; trusted_proxies never are',
  }),
  cleanup_interval_secs: count(60, 1, 3600, 'How often what has not been used for 300 s is forgotten'),
  max_tracked_keys: count(100_000, 16, 10_000_000, 'Addresses, namespaces, principals, failing addresses and bans remembered at once, of each kind'),
})

const server = Type.Object({
  rate_limit_rps: rate(0, 'Requests a second of all callers together; 0 = no limit'),
  rate_limit_burst: burst(0, 'Requests at once of all callers together; less than rate_limit_rps counts as that'),
  per_user_rate_limit_rps: rate(0, 'Requests a second of one key, token subject or certificate; 0 = no limit'),
  per_user_rate_limit_burst: burst(0, 'Requests at once of one of them; less than per_user_rate_limit_rps counts as that'),
})

export const configSchema = Type.Object({
  rate_limit: Type.Object(limits.properties, { default: {}, description: 'Limits by address and namespace, bans, and proxies' }),
  server: Type.Object(server.properties, { default: {}, description: 'Limits of all callers, and by principal' }),
})

export type RateLimitConfig = Static<typeof limits> & Static<typeof server>
