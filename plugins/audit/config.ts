import { type Static, Type } from 'svcdb/lib/schema'

/** What can be asked for in `audit.record`: actions of admitted calls, failed logins, and all other refusals. */
const RECORDABLE = ['read', 'write', 'delete', 'admin', 'data_export', 'schema_change', 'login_failure', 'denied'] as const
export type Recordable = (typeof RECORDABLE)[number]

export const configSchema = Type.Object({
  path: Type.String({
    default: 'audit.jsonl',
    minLength: 1,
    maxLength: 4096,
    description: 'The file of the audit log; a relative path lies in database.data_dir, or in the current folder where nothing is kept on this machine',
  }),
  hmac_key_env: Type.Optional(
    Type.String({
      pattern: '^[A-Za-z_][A-Za-z0-9_]*$',
      maxLength: 256,
      description: 'Name of the environment variable with the key that seals the entries; the server does not start without the variable; unset = SHA-256',
    }),
  ),
  sync_each: Type.Boolean({ default: true, description: 'Whether an entry is on the disk before what it tells of goes on; false = every sync_interval_ms' }),
  sync_interval_ms: Type.Integer({
    default: 1000,
    minimum: 10,
    maximum: 60_000,
    description: 'With sync_each false: the longest that a power cut can take back',
  }),
  record: Type.Array(Type.Unsafe<Recordable>({ type: 'string', enum: [...RECORDABLE] }), {
    default: ['delete', 'admin', 'data_export', 'schema_change', 'login_failure', 'denied'],
    maxItems: RECORDABLE.length,
    description: `Which decisions about calls are recorded, of ${RECORDABLE.join(', ')}; what plugins record themselves always is`,
  }),
  skip: Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 256 }), {
      maxItems: 256,
      description: 'Routes and methods whose admitted calls are not recorded; refused ones are; default server.metrics_path',
    }),
  ),
  fail_closed: Type.Boolean({
    default: true,
    description: 'Whether a call whose entry cannot be kept is refused; false = it goes on, and the next entry says how many are missing',
  }),
  max_queue: Type.Integer({
    default: 4096,
    minimum: 1,
    maximum: 1_000_000,
    description: 'Entries that wait for the disk; further ones cannot be kept. Under server.multi_tenancy those of one namespace are at most three quarters',
  }),
  denials_per_address: Type.Integer({
    default: 20,
    minimum: 1,
    maximum: 10_000,
    description: 'Refusals of one kind from one address that are recorded one by one in a window; further ones are counted in one entry at its end',
  }),
  denials_per_window: Type.Integer({ default: 1000, minimum: 1, maximum: 100_000, description: 'The same, over all addresses' }),
  denial_window_secs: Type.Integer({ default: 60, minimum: 1, maximum: 3600, description: 'Length of that window' }),
  log: Type.Boolean({ default: false, description: 'Whether each entry is written to the log as well, at level info' }),
  memory_entries: Type.Integer({
    default: 1000,
    minimum: 0,
    maximum: 100_000,
    description: 'Newest entries kept in memory for GET /api/v1/admin/audit, of 4 MiB at most',
  }),
})

export type AuditConfig = Static<typeof configSchema>
