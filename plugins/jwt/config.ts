import { FILE_PATH, Secret, settableBy } from 'svcdb'
import { type Static, Type } from 'svcdb/lib/schema'
import { ALGORITHMS } from './algorithms.ts'

const text = (description: string, more: object = {}) => Type.Optional(Type.String({ minLength: 1, maxLength: 2048, description, ...more }))
const claim = (value: string, description: string) => Type.String({ default: value, minLength: 1, maxLength: 256, description })
const seconds = (value: number, minimum: number, maximum: number, description: string) => Type.Number({ default: value, minimum, maximum, description })

export const jwtSchema = Type.Object(
  {
    secret: Type.Optional(
      Secret.schema({
        ...settableBy({ env: ['SVC_JWT_SECRET'], needsSection: true }),
        description: 'Secret of HS256, HS384 and HS512, at least 16 bytes; the environment variable SVC_JWT_SECRET goes before it',
      }),
    ),
    public_key_pem_file: text('File of the public key, or of its certificate, PEM; read at start', FILE_PATH),
    jwks_url: text('URL of the key set of the issuer', { pattern: '^https?://' }),
    algorithm: Type.Optional(
      Type.Enum([...ALGORITHMS], {
        description: 'The one algorithm that is accepted; without it HS256, and with a key set every asymmetric one of the list',
      }),
    ),
    issuer: text('What the claim iss must be; without a secret, file or jwks_url also where the key set is discovered (OpenID Connect)'),
    audience: text('What the claim aud must be or contain'),
    role_claim: claim('roles', 'Claim with the roles: a list of texts, or one text; dots lead into objects, as in realm_access.roles'),
    principal_claim: claim('sub', 'Claim with the name that the caller goes by; dots lead into objects'),
    jwks_cache_ttl_secs: seconds(3600, 1, 86_400, 'How long a fetched key set counts; a key that the issuer withdrew is refused after at most this long'),
    jwks_wait_secs: seconds(
      2,
      0.01,
      60,
      'How long a call waits for the issuer when the key set is fetched again, from the beginning of the fetch; then the keys that are there decide',
    ),
    jwks_unknown_key_secs: seconds(
      10,
      1,
      3600,
      'How long a key that the issuer does not have is refused without asking again, and no fetch begins for another such key',
    ),
    clock_skew_secs: seconds(30, 0, 600, 'How far the clocks of the issuer and of this server may differ when exp and nbf are looked at'),
    reject_replayed_jti: Type.Boolean({
      default: false,
      description: 'Takes each token for one call only, by its claim jti, which it then must have; not for clients that send one token many times',
    }),
    max_used_tokens: Type.Integer({
      default: 100_000,
      minimum: 4,
      maximum: 1_000_000,
      description: 'Tokens that reject_replayed_jti remembers, each until it expires; more are refused. Those for one namespace are at most three quarters',
    }),
  },
  { description: 'What tokens must be like, and what they are verified with' },
)

export const configSchema = Type.Object({
  auth: Type.Object(
    {
      jwt: Type.Optional(jwtSchema),
      chain_auth: Type.Boolean({ default: false, description: 'Whether what fails as a JWT is tried as an API key' }),
    },
    { description: 'Keys of the section that are of tokens' },
  ),
})

export type JwtConfig = Static<typeof jwtSchema>
export type AuthConfig = Static<typeof configSchema>['auth']
