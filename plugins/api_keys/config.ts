import { Secret } from 'svcdb'
import { type Static, Type } from 'svcdb/lib/schema'

/** The last second of the year 9999. */
export const LATEST_SECONDS = 253_402_300_799
export const MAX_NAMESPACES = 1000
export const MAX_ROLES = 100
/** Of one source: the config, the file of runtime keys, the store. */
export const MAX_KEYS = 10_000
/** Characters; room for blanks that are trimmed. */
const MAX_GIVEN_NAME = 256

export const namespaceList = (options: { description: string; default?: string[] }) => Type.Array(Type.String(), { maxItems: MAX_NAMESPACES, ...options })
export const roleList = (options: { description: string; default?: string[] }) =>
  Type.Array(Type.String({ minLength: 1, maxLength: 128 }), { maxItems: MAX_ROLES, ...options })
export const expiry = (description: string) => Type.Optional(Type.Integer({ minimum: 1, maximum: LATEST_SECONDS, description }))

const configKey = Type.Object({
  name: Type.String({ minLength: 1, maxLength: MAX_GIVEN_NAME, description: 'Who the key stands for; 1 to 128 characters, unique' }),
  key: Secret.schema({
    description: 'The key itself, "$" and the name of an environment variable that has it, or its Argon2 hash as a PHC string',
    minLength: 1,
  }),
  key_prefix: Type.Optional(
    Type.String({
      pattern: '^[A-Za-z0-9_-]{8}$',
      description:
        'With a PHC string: the first 8 characters behind api_key_prefix, as generate-key prints them; without, the hash is tried for every key that is unknown',
    }),
  ),
  namespaces: namespaceList({
    default: [],
    description: 'Namespaces that it may name; none, or ["*"] = all. Under server.multi_tenancy some must be named, and only an admin may have ["*"]',
  }),
  admin: Type.Boolean({ default: false, description: 'Whether it may administer the server' }),
  roles: roleList({ default: [], description: 'Roles for the policy engine' }),
  tenant: Type.Optional(Type.String({ description: 'One more namespace, which is shown as tenant_id' })),
  expires_at: expiry('When it ends, Unix seconds'),
})

const apiKey = Type.Object(
  {
    enabled: Type.Boolean({ default: true, description: 'false: keys let nobody in, and can still be listed, made and revoked' }),
    cache_max_entries: Type.Integer({ default: 10_000, minimum: 1, maximum: 1_000_000, description: 'Verified keys that are remembered' }),
    cache_ttl_secs: Type.Integer({
      default: 300,
      minimum: 1,
      maximum: 86_400,
      description: 'How long a verified key is remembered, and how often files of keys are looked for',
    }),
    max_failures: Type.Integer({
      default: 20,
      minimum: 0,
      maximum: 1000,
      description: 'Failures within failure_window_secs after which more keys with the same first 8 characters are refused with 429; 0 = no limit',
    }),
    failure_window_secs: Type.Integer({ default: 60, minimum: 1, maximum: 86_400, description: 'How long a failure counts' }),
    max_verifications: Type.Integer({ default: 1, minimum: 1, maximum: 16, description: 'Keys that are hashed at one time; each takes a core and 19 MiB' }),
    max_queued_verifications: Type.Integer({
      default: 100,
      minimum: 1,
      maximum: 10_000,
      description: 'Keys that wait to be hashed, at most half of them from one address; above: 503',
    }),
    max_keys_per_namespace: Type.Integer({
      default: 1000,
      minimum: 1,
      maximum: MAX_KEYS,
      description: 'Made keys of a namespace beyond which its own admins make no more (409), so that all namespaces find room; admins over everything may',
    }),
  },
  { default: {}, description: 'How keys are checked, and how many there may be' },
)

export const configSchema = Type.Object({
  auth: Type.Object(
    {
      api_keys: Type.Array(configKey, { default: [], maxItems: MAX_KEYS, description: 'Keys of the config, each an [[auth.api_keys]]' }),
      api_key: apiKey,
      api_key_prefix: Type.String({ default: 'svc_', pattern: '^[A-Za-z0-9_-]{1,32}$', description: 'What keys that are made begin with' }),
      persistent_api_keys: Type.Boolean({
        default: false,
        description: 'Keeps keys that are made as objects, in the state store or below storage.object_store_url, and takes those that svc generate-key puts',
      }),
      encryption_key_env: Type.Optional(
        Type.String({
          pattern: '^[A-Za-z_][A-Za-z0-9_]*$',
          maxLength: 128,
          description: 'Environment variable with the key, base64 of 32 bytes, that encrypts these objects; unset = they lie in the clear, with hashes only',
        }),
      ),
    },
    { description: 'Who is let in' },
  ),
  storage: Type.Object(
    {
      object_store_url: Type.Optional(
        Type.String({ maxLength: 4096, description: 'Where key objects lie: memory:// or file:///path; default is the state store' }),
      ),
    },
    { description: 'Where objects are kept' },
  ),
})

export type ApiKeysConfig = Static<typeof configSchema>
export type ConfigKey = Static<typeof configKey>
