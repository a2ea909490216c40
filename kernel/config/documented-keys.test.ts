/** Every key of the documented configuration is taken under its name, or refused with a sentence that says what to do. */
import { join } from 'node:path'
import t from 'tap'
import { loadPlugin } from '../loader.ts'
import type { Plugin } from '../plugin.ts'
import { ConfigError, resolveConfig, type Tree } from './config.ts'
import { NEEDLESS } from './names.ts'
import { describe, notes } from './text.ts'

const ROOT = join(import.meta.dirname, '..')
const ids = [
  'native',
  'grpc',
  'flight_sql',
  'sql',
  'promql',
  'api_keys',
  'jwt',
  'audit',
  'cedar',
  'rate_limit',
  'backup',
  'cold_archive',
  'triggers',
  'cluster',
  'tracing',
]
const plugins = await Promise.all(ids.map((id) => loadPlugin(id, ROOT)))

async function resolved(tree: Tree, selected: readonly Plugin[] = plugins): Promise<{ text: string; notes: string[] } | readonly string[]> {
  // What some of the plugins cannot do without.
  const needs = selected === plugins ? { cold_archive: { remote_url: 'file:///tmp/archive', ...(tree.cold_archive as Tree) } } : {}
  try {
    const config = await resolveConfig({ tree: { ...tree, ...needs }, file: 'svc.toml', folder: ROOT, overrides: new Map() }, { plugins: selected })
    return { text: describe(config), notes: notes(config) }
  } catch (error) {
    if (error instanceof ConfigError) return error.problems
    throw error
  }
}

/** Value of a key as `svc check` prints it, which is within a section or within a member of one. */
function printed(text: string, section: string, key: string): unknown {
  if (!text.includes(`\n[${section}]\n`)) {
    const [outer, ...members] = section.split('.')
    return (printed(text, outer, members.join('.')) as Record<string, unknown> | undefined)?.[key]
  }
  const lines = text
    .slice(text.indexOf(`\n[${section}]\n`) + 1)
    .split('\n\n', 1)[0]
    .split('\n')
  const line = lines.find((each) => each.startsWith(`${key} = `))?.slice(key.length + 3)
  return line === undefined ? undefined : JSON.parse(line.replace(/ # (default|preset|file)$/, ''))
}

/** Keys and a value that is not the default. */
const TAKEN: Record<string, Record<string, unknown>> = {
  server: {
    http_addr: '127.0.0.1:1',
    public_url: 'https://svc.example',
    metrics_path: '/m',
    metrics_require_auth: false,
    max_body_size: 2048,
    log_format: 'compact',
    log_level: 'warn',
    dedup_window_secs: 1,
    max_dedup_entries: 10,
    backup_root: '/b',
    authz_policy_dir: '/policies',
    multi_tenancy: true,
    cors_allowed_origins: ['https://a.example'],
    allow_unsafe_cors: true,
    sql_query_timeout_secs: 1,
    prom_query_timeout_secs: 1,
    sql_max_rows: 7,
    max_write_batch_size: 7,
    write_timeout_secs: 0,
    max_range_query_points: 7,
    prom_series_limit: 7,
    prom_max_result_bytes: 2048,
    shutdown_timeout_secs: 7,
    rate_limit_rps: 7,
    rate_limit_burst: 7,
    per_user_rate_limit_rps: 7,
    per_user_rate_limit_burst: 7,
  },
  database: {
    data_dir: '/d',
    wal_fsync_policy: 'periodic_7',
    wal_max_file_size: 8_388_608,
    wal_max_unflushed: 7,
    memtable_flush_threshold: 8_388_608,
    max_memtable_memory: 134_217_728,
    shard_duration_secs: 7200,
    ooo_shard_tolerance: 7,
    future_write_tolerance_secs: 7,
    retention_secs: 864_000,
    maintenance_interval_secs: 7,
    soft_delete_ttl_secs: 7,
    max_series_cardinality: 7,
    per_query_memory_limit: 134_217_728,
    segment_cache_size: 8_388_608,
    compression: 'none',
    zstd_level: 7,
    preset: 'small',
    field_encryption: { columns: { secret: 'k' }, keys: { k: 'SVC_KEY' } },
  },
  'database.checkpoints': { interval_secs: 7, directory: '/c', keep: 7 },
  auth: { exempt_paths: ['/x'] },
  'auth.jwt': { jwks_url: 'https://a.example/keys', algorithm: 'ES256', issuer: 'https://a.example', audience: 'svc', role_claim: 'a.b' },
  triggers: { catalog_path: 'triggers', signal_store_capacity: 7 },
  audit: { path: 'a.jsonl', hmac_key_env: 'SVC_AUDIT_KEY', sync_each: false },
  cold_archive: { cold_after_secs: 86_400, interval_secs: 7, max_objects_per_run: 7 },
  tls: { cert: '/a', key: '/b', client_ca: '/c', reload_interval_secs: 7 },
}

const RENAMED: Record<string, [key: string, value: unknown]> = {
  'server.grpc_addr': ['grpc.addr', '127.0.0.1:8087'],
  'server.flight_addr': ['flight_sql.addr', '127.0.0.1:8817'],
  'server.grpc_reflection': ['grpc.reflection', true],
  'server.grpc_keepalive_secs': ['grpc.keepalive_secs', 7],
  'server.grpc_keepalive_timeout_secs': ['grpc.keepalive_timeout_secs', 7],
  'server.stream_batch_size': ['grpc.stream_batch_size', 7],
  'server.stream_batch_interval_ms': ['grpc.stream_batch_interval_ms', 7],
  'database.query_timeout_secs': ['server.query_timeout_secs', 7],
  'database.max_forecast_horizon': ['analytics.max_forecast_horizon', 70],
  'database.max_training_points': ['analytics.max_training_points', 70],
}

const treeOf = (path: string, value: unknown): Tree => path.split('.').reduceRight<unknown>((below, name) => ({ [name]: below }), value) as Tree
const tls = { cert: '/a', key: '/b' }

t.test('keys that are what they are called', async (t) => {
  for (const [section, keys] of Object.entries(TAKEN)) {
    for (const [key, value] of Object.entries(keys)) {
      const answer = await resolved(treeOf(section, section === 'tls' ? { ...tls, [key]: value } : { [key]: value }))
      if ('text' in answer) t.match(printed(answer.text, section, key), value, `${section}.${key}`)
      else t.fail(`${section}.${key}: ${answer.join('; ')}`)
    }
  }
})

t.test('keys that have another name', async (t) => {
  for (const [alias, [key, value]] of Object.entries(RENAMED)) {
    const [section, name] = key.split('.')
    const answer = await resolved(treeOf(alias, value))
    if ('text' in answer) {
      t.same(printed(answer.text, section, name), value, alias)
      t.same(answer.notes, [`"${alias}" in svc.toml is "${key}"`])
    } else t.fail(`${alias}: ${answer.join('; ')}`)
    const [own, other] = alias.split('.')
    const both = await resolved({ [own]: { [other]: value }, [section]: { ...(own === section ? { [other]: value } : {}), [name]: value } })
    t.match(both, [`cannot use "${alias}" beside "${key}" in svc.toml: they are two names of one key; remove one`])
    t.match(await resolved(treeOf(alias, { no: 'value' })), [new RegExp(`^cannot use "${key}.*" .*in svc.toml, where it is "${alias}": `)])
  }
  const [problem] = (await resolved({ server: { grpc_addr: '127.0.0.1:1' } }, [])) as readonly string[]
  t.equal(problem, 'cannot use "server.grpc_addr" in svc.toml: it belongs to plugin "grpc", which is not selected; add "grpc" to plugins or remove the key')
})

t.test('traces are told where to go under [tracing.otlp]', async (t) => {
  const otlp = { endpoint: 'http://collector:4317' }
  const documented = { tracing: { service_name: 'edge', otlp: { ...otlp, sampling: 'always_on', always_sample_errors: false } } }
  for (const sampling of ['always_on', 'always_off', 0.25, 0, 1]) {
    const answer = await resolved({ tracing: { ...documented.tracing, otlp: { ...documented.tracing.otlp, sampling } } })
    if (!('text' in answer)) return t.fail(answer.join('; '))
    t.equal(printed(answer.text, 'tracing', 'service_name'), 'edge')
    t.equal(printed(answer.text, 'tracing', 'endpoint'), 'http://collector:4317')
    t.equal(printed(answer.text, 'tracing', 'sampling'), sampling)
    t.equal(printed(answer.text, 'tracing', 'always_sample_errors'), false)
    t.same(
      answer.notes,
      ['endpoint', 'sampling', 'always_sample_errors'].map((key) => `"tracing.otlp.${key}" in svc.toml is "tracing.${key}"`),
    )
  }
  const refused = async (tracing: Tree, text: RegExp) => t.match(await resolved({ tracing }), [text])
  await refused({ service_name: 'edge' }, /^cannot find "tracing.endpoint" in svc.toml: it is needed; Where spans go/)
  await refused({}, /^cannot find "tracing.endpoint"/)
  await refused({ otlp: { sampling: 0.5 } }, /^cannot find "tracing.endpoint"/)
  await refused(
    { otlp, endpoint: 'http://other:4317' },
    /^cannot use "tracing.otlp.endpoint" beside "tracing.endpoint" in svc.toml: they are two names of one key/,
  )
  await refused({ otlp: { ...otlp, sampling: 1.5 } }, /^cannot use "tracing.sampling" 1.5 in svc.toml, where it is "tracing.otlp.sampling": /)
  await refused({ otlp: { ...otlp, sampling: 'sometimes' } }, /^cannot use "tracing.sampling" "sometimes" in svc.toml, where it is "tracing.otlp.sampling": /)
  await refused({ otlp: { ...otlp, samplin: 1 } }, /^cannot use "tracing.otlp" in svc.toml: there is no such key/)
})

t.test('keys and sections that there is no need for', async (t) => {
  for (const [key, why] of Object.entries(NEEDLESS)) {
    const answer = await resolved(treeOf(key, key.includes('.') ? 1 : { any: 1 }))
    t.same(answer, [`cannot use ${key.includes('.') ? `"${key}"` : `section "[${key}]"`} in svc.toml: ${why}`])
  }
})
