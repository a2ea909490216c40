/** The [database] section of the ClickHouse engine. */
import { Secret } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { type Static, Type } from 'svcdb/lib/schema'
import { admissionKeys, limitsOf } from '../common/limits.ts'
import { retentionKeys, retentionSettings } from '../common/retention.ts'

const NAME = '^[a-z][a-z0-9_]*$'
const DISK_NAME = '^[A-Za-z0-9_-]+$'
const MAX_PREFIX = 32

const clickhouse = Type.Object(
  {
    url: Type.String({
      default: 'http://localhost:8123',
      minLength: 1,
      maxLength: 1024,
      description: "ClickHouse's HTTP interface, or what balances several: http://host:8123, with TLS https://host:8443",
    }),
    username: Type.String({ default: 'default', maxLength: 256, description: 'User; may create databases and tables below the prefix' }),
    password: Type.Optional(Secret.schema({ description: 'Password of that user; best taken from the environment' })),
    prefix: Type.String({
      default: 'svc',
      minLength: 1,
      maxLength: MAX_PREFIX,
      pattern: NAME,
      description:
        'Names of databases begin with it: <prefix> has the catalog, <prefix>_... the points of a namespace. Nodes with the same prefix share their data',
    }),
    cluster: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 64,
        pattern: '^[A-Za-z0-9_-]+$',
        description: 'Cluster of remote_servers: tables are replicated and distributed over its shards by series; unset = one server',
      }),
    ),
    insert_quorum: Type.Union([Type.Integer({ minimum: 0, maximum: 64 }), Type.Literal('auto')], {
      default: 'auto',
      description: 'Replicas that have a write before it is acknowledged, with cluster; auto = more than half, 0 = the one that it was sent to',
    }),
    backup_disk: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 64,
        pattern: DISK_NAME,
        description: "Disk of ClickHouse's storage_configuration that backups go to, one of backups.allowed_disk; unset = the engine has no backups",
      }),
    ),
    max_connections: Type.Integer({
      default: 16,
      minimum: 2,
      maximum: 1024,
      description: 'Connections at once; three quarters of them for questions, of which a namespace leaves a quarter to the others',
    }),
    write_timeout_secs: Type.Integer({
      default: 30,
      minimum: 1,
      maximum: 3600,
      description: 'How long a write may take, tries again included; above: 504 WRITE_TIMEOUT',
    }),
    max_waiting_bytes: Type.Integer({
      default: 67_108_864,
      minimum: 1_048_576,
      maximum: 17_179_869_184,
      description:
        'Bytes of rows that wait for ClickHouse; above: 503 BACKPRESSURE. Under server.multi_tenancy rows of one namespace have at most three times what is left, alone three quarters',
    }),
    query_rows: Type.Integer({
      default: 10_000_000,
      minimum: 1,
      maximum: 2 ** 40,
      description: 'Rows that ClickHouse answers a statement of SQL with at most; above: SQL_ERROR. Of these server.sql_max_rows are handed on',
    }),
    storage_policy: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 64,
        pattern: DISK_NAME,
        description: "Storage policy of ClickHouse's for the tables of points; it has the disks that they are on. Unset = as the server has it",
      }),
    ),
    cold_volume: Type.Optional(
      Type.String({ minLength: 1, maxLength: 64, pattern: DISK_NAME, description: 'Volume of that policy that old rows are moved to; with cold_after_secs' }),
    ),
    cold_after_secs: Type.Integer({
      default: 0,
      minimum: 0,
      maximum: 3_155_760_000,
      description: 'Age from which on rows are moved to cold_volume, by whole parts; they are read as before. 0 = never',
    }),
    query_memory: Type.Integer({ default: 2_147_483_648, minimum: 16_777_216, maximum: 2 ** 46, description: 'Memory of one read in ClickHouse' }),
  },
  { default: {}, description: 'Where the points are' },
)

export const configSchema = Type.Object({
  ...admissionKeys,
  ...retentionKeys,
  maintenance_interval_secs: Type.Integer({
    default: 60,
    minimum: 1,
    maximum: 86_400,
    description: 'How often what retention and drops have ended is removed, and what other nodes have written is counted',
  }),
  clickhouse,
})

export type ClickHouseSection = Static<typeof clickhouse>

/** @param config the resolved [database] section; a key that is absent takes its default. */
export function sectionOf(config: Record<string, unknown>): ClickHouseSection {
  const given = (config.clickhouse ?? {}) as Partial<ClickHouseSection>
  const defaults = Object.entries(clickhouse.properties).flatMap(([key, schema]) => ('default' in schema ? [[key, schema.default]] : []))
  return { ...(Object.fromEntries(defaults) as ClickHouseSection), ...given }
}

export function isPrefix(text: string): boolean {
  return text.length <= MAX_PREFIX && new RegExp(NAME).test(text)
}

/** Capabilities that the section does not give the engine, and what to do for them. */
export function lacking(config: Record<string, unknown>): Record<string, string> {
  if (sectionOf(config).backup_disk !== undefined) return {}
  return { backup: 'name a disk of ClickHouse in database.clickhouse.backup_disk' }
}

/** @throws CONFIG_ERROR for values that cannot be used. */
export function check(config: Record<string, unknown>): void {
  retentionSettings(config, limitsOf(config))
  const { url, storage_policy, cold_volume, cold_after_secs } = sectionOf(config)
  // It is not said which: it may have a password.
  const refuse = (cause: string): SvcError => new SvcError('CONFIG_ERROR', `cannot use [database.clickhouse] url: ${cause}`)
  const parsed = URL.parse(url)
  if (parsed === null || !/^https?:$/.test(parsed.protocol)) throw refuse('it is no address of an HTTP interface; write http://host:8123')
  if (parsed.username !== '' || parsed.password !== '') throw refuse('it has a user; write username and password as keys of their own')
  if (cold_after_secs > 0 && (storage_policy === undefined || cold_volume === undefined))
    throw new SvcError('CONFIG_ERROR', 'cannot use [database.clickhouse] cold_after_secs: it needs storage_policy and cold_volume, which say where old rows go')
}

/** Where the tables of points are, and from when on where else. */
export interface StoragePolicy {
  policy: string
  /** Absent = all rows stay where they are. */
  cold?: { volume: string; afterSecs: number }
}

/** Undefined: as the server has it. */
export function policyOf({ storage_policy: policy, cold_volume: volume, cold_after_secs: afterSecs }: ClickHouseSection): StoragePolicy | undefined {
  if (policy === undefined) return undefined
  return afterSecs > 0 && volume !== undefined ? { policy, cold: { volume, afterSecs } } : { policy }
}

/** For `svc check`. */
export function explain(config: Record<string, unknown>): string[] {
  const section = sectionOf(config)
  const { url, prefix, cluster, insert_quorum, backup_disk } = section
  const stored = policyOf(section)
  const parsed = URL.parse(url)
  const address = parsed === null || parsed.host === '' ? '?' : `${parsed.protocol}//${parsed.host}`
  const where = cluster === undefined ? 'one server' : `cluster "${cluster}", a write is acknowledged by ${insert_quorum} replicas`
  const cold = stored?.cold === undefined ? '' : `; rows older than ${stored.cold.afterSecs} s are on volume "${stored.cold.volume}"`
  return [
    `points are in ClickHouse at ${address}, databases ${prefix} and ${prefix}_*, on ${where}${stored === undefined ? '' : `, with storage policy "${stored.policy}"`}${cold}`,
    backup_disk === undefined
      ? 'there are no backups: name a disk of ClickHouse for them in database.clickhouse.backup_disk'
      : `backups go to disk "${backup_disk}" of ClickHouse, made by its BACKUP`,
    'the engine keeps no state and tells no changes, and has no archive of its own: plugins that need one of them cannot run on it',
    'exports are files on this node, in export.directory, which has to be set',
  ]
}
