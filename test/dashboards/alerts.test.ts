/**
 * Each alert rule that svc brings, evaluated by svc's own PromQL: over series made so that it must fire, for as long as it says, and over the metrics of
 * a server that is well, with every counter at work, where none may fire.
 */

import { boot } from 'svcdb/testkit'
import t from 'tap'
import { parse } from 'yaml'
import { read } from '../support/tree.ts'
import { Asker } from './ask.ts'
import { parseExposition, REMOTE_WRITE, requestOfSeries, type Samples } from './scrape.ts'

interface Rule {
  alert: string
  expr: string
  for?: string
  labels: { severity: string }
  annotations: { summary: string; description: string }
}

const rules = (parse(read('plugins/dashboards/rules/svc.yml')) as { groups: { name: string; rules: Rule[] }[] }).groups.flatMap((group) => group.rules)

const STEP_SECS = 15
const TARGET = { job: 'svc', instance: 'a:8086' }
/** Seconds of series before a rule is asked the first time: longer than the longest range of a rule. */
const BEFORE_SECS = 4 * 3600
const ASKED_SECS = 20 * 60
/** Of series in one request. */
const REQUEST_SECS = 20 * 60

type Value = number | ((secs: number) => number | undefined)
/** By the text of a series; values by seconds since the start, undefined where there is no sample. */
type Made = Record<string, Value>

/** A counter that begins to grow by so much a second when the rule is asked. */
const growing =
  (perSec: number): Value =>
  (secs) =>
    Math.max(0, secs - BEFORE_SECS) * perSec
/** A counter that steps up from zero, a moment before the rule is asked. */
const step =
  (by = 1): Value =>
  (secs) =>
    secs < BEFORE_SECS - 60 ? 0 : by
/** A counter that is not there before its first event. */
const born =
  (value = 1): Value =>
  (secs) =>
    secs < BEFORE_SECS - 60 ? undefined : value
/** A classic histogram whose observations are all in one bucket. */
const histogram = (name: string, labels: string, bound: number): Made =>
  Object.fromEntries(
    [0.1, 0.5, 1, 2.5, 5, 10, 30, Infinity].map((le): [string, Value] => [
      `${name}_bucket{${labels}le="${le === Infinity ? '+Inf' : le}"}`,
      le >= bound ? growing(10) : 0,
    ]),
  )

/** Series over which each rule must fire. Where there are two lists, over each of them. */
const FIRE: Record<string, Made[]> = {
  SvcDown: [{ up: 0 }],
  SvcRestarts: [{ svc_process_start_time_seconds: (secs) => Math.floor(secs / 300) * 300 }],
  SvcServerErrors: [{ 'svc_http_requests_total{action="read",status="200"}': growing(10), 'svc_http_requests_total{action="read",status="500"}': growing(1) }],
  SvcMainLoopBlocked: [{ 'svc_main_loop_delay_seconds{quantile="0.99"}': 0.4 }],
  SvcFileDescriptors: [{ svc_process_open_fds: 900, svc_process_max_fds: 1024 }],
  SvcStorageFull: [{ 'svc_write_errors_total{reason="storage_full"}': step() }],
  SvcWritesFailing: [{ 'svc_write_errors_total{reason="timeout"}': growing(0.1) }, { 'svc_write_errors_total{reason="panic"}': growing(0.1) }],
  SvcWritesRejected: [{ 'svc_write_errors_total{reason="rejected"}': growing(1) }],
  SvcWritesSlow: [histogram('svc_write_duration_seconds', '', 5)],
  SvcBackpressure: [{ svc_compaction_backpressure_active: 1 }],
  SvcMaintenanceDead: [{ svc_maintenance_running: 0 }],
  SvcMaintenanceDies: [{ svc_maintenance_panics_total: step() }],
  SvcDamagedSegments: [{ svc_damaged_segments: 1 }],
  SvcFlushesFail: [{ svc_flush_failures_total: step() }],
  SvcMergesFail: [{ svc_compaction_failures_total: step() }],
  SvcDeletesIncomplete: [{ svc_delete_segments_skipped_total: step() }],
  SvcArchiveFails: [{ 'svc_cold_archive_runs_total{result="failed"}': step(4) }],
  SvcBackupsFail: [{ svc_backup_failures_total: step() }],
  SvcSchedulesFail: [
    { 'svc_schedule_runs_total{plugin="p",schedule="s",result="failed"}': step(4) },
    { 'svc_schedule_runs_total{plugin="p",schedule="s",result="failed"}': born(4) },
  ],
  SvcQueriesWait: [{ svc_queries_waiting: 2 }],
  SvcQueriesCut: [{ svc_queries_cut_total: step() }],
  SvcQueriesSlow: [histogram('svc_promql_request_duration_seconds', 'endpoint="query_range",', 10)],
  SvcPlansRefused: [{ svc_sql_refused_plans_total: step() }],
  SvcCredentialsRefused: [{ 'svc_http_requests_total{action="read",status="401"}': growing(3) }],
  SvcAddressesShutOut: [{ svc_auth_bans_total: step() }],
  SvcRateLimited: [{ 'svc_rate_limited_total{layer="namespace"}': growing(3) }],
  SvcQuotaUsedUp: [{ 'svc_namespace_quota_refusals_total{quota="max_series"}': step() }, { 'svc_namespace_quota_refusals_total{quota="max_series"}': born() }],
  SvcAuditFails: [{ 'svc_audit_failures_total{code="IO_ERROR"}': step() }, { 'svc_audit_failures_total{code="IO_ERROR"}': born() }],
  SvcAuditTrailTouched: [{ 'svc_audit_trail_events_total{event="cut"}': born() }],
  SvcPoliciesNotApplied: [{ 'svc_policy_reloads_total{result="refused"}': born() }],
  SvcTokenKeysOld: [{ svc_jwt_keys: 2, svc_jwt_keys_age_seconds: 100_000 }],
  SvcWebhooksBackUp: [{ svc_webhook_queue_oldest_age_seconds: (secs) => secs - BEFORE_SECS + 3601 }],
  SvcWebhooksLost: [{ 'svc_webhook_deliveries_total{result="dropped"}': step() }, { 'svc_webhook_deliveries_total{result="expired"}': step() }],
  SvcWebhookParked: [{ 'svc_webhook_endpoints{state="active"}': 9, 'svc_webhook_endpoints{state="parked"}': 1 }],
  SvcSignalsDropped: [{ 'svc_signal_delivery_dropped_total{channel="log"}': step() }, { 'svc_signal_delivery_dropped_total{channel="webhook"}': step() }],
  SvcCertificateExpires: [{ 'svc_tls_certificate_expires_seconds{file="/tls/cert.pem"}': 1 }],
  SvcConnectorDown: [{ 'svc_connector_up{connector="one",type="mqtt"}': 0, 'svc_connector_up{connector="two",type="kafka"}': 1 }],
  SvcTriggersBehind: [{ svc_trigger_commits_behind: 5000 }],
  SvcTriggersMissed: [{ svc_trigger_gaps_total: step() }],
  SvcChangesMissed: [{ svc_cdc_gaps_total: step() }],
  SvcRollupsBehind: [{ svc_rollup_pending_repairs: 20 }, { svc_rollup_lag_seconds: 3600 }],
  SvcRollupsFail: [{ svc_rollup_failures_total: step(4) }],
  SvcRollupsParked: [{ svc_rollups_parked: 1 }],
  SvcForwardQueueFilling: [{ svc_forward_queue_bytes: 900, svc_forward_queue_max_bytes: 1000 }],
  SvcForwardStuck: [{ svc_forward_queue_oldest_seconds: (secs) => secs - BEFORE_SECS + 901, 'svc_forward_up{upstream="one"}': 0 }],
  SvcForwardNamespaceParked: [{ 'svc_forward_parked_namespaces{upstream="one"}': 2 }],
  SvcForwardPointsLost: [
    { 'svc_forward_dropped_points_total{reason="size"}': step() },
    { svc_forward_damaged_bytes_total: step() },
    { svc_forward_dead_letters_dropped_total: step() },
  ],
  SvcObligationsBreached: [{ 'svc_agent_plane_attention{condition="obligation.breached"}': 1 }],
  SvcRunsQuarantined: [{ 'svc_agent_plane_attention{condition="run.quarantined"}': 1 }],
  SvcPushesParked: [{ 'svc_agent_plane_attention{condition="push.parked"}': 2 }],
  SvcAgentsNeedAttention: [{ 'svc_agent_plane_attention{condition="run.exhausted"}': 1 }, { 'svc_agent_plane_attention{condition="task.overdue"}': 1 }],
  SvcForwardPointsSetAside: [
    { 'svc_forward_set_aside_points_total{upstream="one",code="SCHEMA_ERROR"}': step() },
    { 'svc_forward_set_aside_points_total{upstream="one",code="SCHEMA_ERROR"}': born() },
  ],
}

/** What a server shows that is busy and well, beside what is put in its place by the list above: load, some bad input, one failed run. */
const WELL: Made = {
  up: 1,
  svc_process_start_time_seconds: 1000,
  'svc_http_requests_total{action="write",status="204"}': growing(200),
  'svc_http_requests_total{action="read",status="200"}': growing(50),
  'svc_http_requests_total{action="read",status="401"}': growing(0.01),
  'svc_http_requests_total{action="read",status="500"}': growing(0.01),
  'svc_main_loop_delay_seconds{quantile="0.99"}': 0.012,
  svc_process_open_fds: 100,
  svc_process_max_fds: 1024,
  'svc_write_errors_total{reason="storage_full"}': 3,
  'svc_write_errors_total{reason="timeout"}': 0,
  'svc_write_errors_total{reason="panic"}': 0,
  'svc_write_errors_total{reason="rejected"}': growing(0.001),
  ...histogram('svc_write_duration_seconds', '', 0.1),
  ...histogram('svc_promql_request_duration_seconds', 'endpoint="query_range",', 0.1),
  svc_compaction_backpressure_active: 0,
  svc_maintenance_running: 1,
  svc_maintenance_panics_total: 1,
  svc_damaged_segments: 0,
  svc_flush_failures_total: 1,
  svc_compaction_failures_total: 2,
  svc_delete_segments_skipped_total: 1,
  'svc_cold_archive_runs_total{result="done"}': growing(0.01),
  'svc_cold_archive_runs_total{result="failed"}': 5,
  svc_backup_failures_total: 1,
  'svc_schedule_runs_total{plugin="p",schedule="s",result="done"}': growing(0.1),
  'svc_schedule_runs_total{plugin="p",schedule="s",result="failed"}': 9,
  svc_queries_waiting: (secs) => (secs % 600 === 0 ? 1 : 0),
  svc_queries_cut_total: 1,
  svc_sql_refused_plans_total: 0,
  svc_auth_bans_total: 7,
  'svc_rate_limited_total{layer="namespace"}': growing(0.1),
  'svc_namespace_quota_refusals_total{quota="max_series"}': 4,
  'svc_audit_failures_total{code="IO_ERROR"}': 1,
  'svc_audit_trail_events_total{event="replaced"}': 1,
  'svc_policy_reloads_total{result="applied"}': growing(0.01),
  'svc_policy_reloads_total{result="refused"}': 1,
  svc_jwt_keys: 2,
  svc_jwt_keys_age_seconds: 3000,
  // A receiver that was away for a moment, a burst of writes, and what was lost before.
  svc_webhook_queue_oldest_age_seconds: (secs) => (secs % 600 === 0 ? 4000 : 30),
  'svc_webhook_deliveries_total{result="delivered"}': growing(20),
  'svc_webhook_deliveries_total{result="dropped"}': 3,
  'svc_webhook_deliveries_total{result="expired"}': 2,
  'svc_webhook_endpoints{state="active"}': 9,
  'svc_webhook_endpoints{state="failing"}': 1,
  'svc_webhook_endpoints{state="parked"}': 0,
  'svc_signal_delivery_dropped_total{channel="log"}': 3,
  'svc_signal_delivery_dropped_total{channel="webhook"}': 2,
  // The broker was restarted.
  'svc_connector_up{connector="one",type="mqtt"}': (secs) => (secs % 600 === 0 ? 0 : 1),
  svc_trigger_commits_behind: (secs) => (secs % 600 === 0 ? 5000 : 2),
  svc_trigger_gaps_total: 1,
  svc_cdc_gaps_total: 4,
  // An hour has closed, and is computed within a minute.
  svc_rollup_lag_seconds: (secs) => (secs % 3600 === 0 ? 3600 : 0),
  svc_rollup_queue_oldest_age_seconds: (secs) => (secs % 3600 === 0 ? 30 : 0),
  svc_rollup_pending_repairs: (secs) => (secs % 600 === 0 ? 30 : 1),
  svc_rollup_failures_total: 3,
  svc_rollups_parked: 0,
  // The upstream was restarted.
  svc_forward_queue_bytes: (secs) => (secs % 600 === 0 ? 950 : 10),
  svc_forward_queue_max_bytes: 1000,
  svc_forward_queue_oldest_seconds: (secs) => (secs % 600 === 0 ? 60 : 1),
  'svc_forward_up{upstream="one"}': (secs) => (secs % 600 === 0 ? 0 : 1),
  'svc_forward_parked_namespaces{upstream="one"}': (secs) => (secs % 600 === 0 ? 1 : 0),
  'svc_forward_dropped_points_total{reason="size"}': 100,
  'svc_forward_set_aside_points_total{upstream="one",code="INVALID_POINT"}': 3,
}

/** How often a rule has a result while it is asked, and the longest run of it in seconds. */
async function firing(made: Made, list: readonly Rule[]): Promise<Map<string, number>> {
  const node = await boot({ plugins: ['remote_write', 'promql'] })
  try {
    const end = Math.floor(Date.now() / 1000 / STEP_SECS) * STEP_SECS
    const start = end - BEFORE_SECS - ASKED_SECS
    const series = Object.entries(made).map(([text, value]) => ({ ...parseExposition(`${text} 0`)[0], made: value }))
    for (let from = 0; from <= BEFORE_SECS + ASKED_SECS; from += REQUEST_SECS) {
      const steps = Array.from({ length: REQUEST_SECS / STEP_SECS }, (_, i) => from + i * STEP_SECS).filter((secs) => secs <= BEFORE_SECS + ASKED_SECS)
      const list = series.map(({ name, labels, made: value }): Samples => {
        const samples = steps.flatMap((secs) => {
          const now = typeof value === 'number' ? value : value(secs)
          return now === undefined ? [] : [{ ms: (start + secs) * 1000, value: now }]
        })
        return { name, labels, samples }
      })
      const payload = requestOfSeries(
        list.filter(({ samples }) => samples.length > 0),
        TARGET,
      )
      const answer = await node.inject({ method: 'POST', url: '/api/v1/prom/write', headers: REMOTE_WRITE, payload })
      if (answer.statusCode !== 204) throw new Error(answer.body)
    }
    const ask = new Asker(node)
    const longest = new Map<string, number>()
    for (const { alert, expr } of list) {
      const found = await ask.range(expr, { start: start + BEFORE_SECS, end }, STEP_SECS)
      if (found.status !== 'success') throw new Error(`${alert}: ${found.error}`)
      if (found.warnings !== undefined) throw new Error(`${alert}: ${found.warnings.join()}`)
      longest.set(alert, Math.max(-1, ...found.data!.result.map(({ values }) => longestRun(values!.map(([time]) => time)))))
    }
    return longest
  } finally {
    await node.stop()
  }
}

function longestRun(times: readonly number[]): number {
  let longest = 0
  let began = times[0]
  for (const [i, time] of times.entries()) {
    if (i > 0 && time - times[i - 1] > STEP_SECS) began = time
    longest = Math.max(longest, time - began)
  }
  return longest
}

const secondsOf = (text = '0s'): number => Number.parseInt(text, 10) * { s: 1, m: 60, h: 3600 }[text.at(-1) as 's' | 'm' | 'h']

t.setTimeout(300_000)

t.test('every rule has a severity, a summary that names the instance, and series that make it fire', async (t) => {
  t.same(rules.map(({ alert }) => alert).sort(), Object.keys(FIRE).sort())
  for (const { alert, labels, annotations } of rules) {
    t.ok(['critical', 'warning'].includes(labels.severity), alert)
    t.match(annotations.summary, /\{\{ \$labels\.instance \}\}/, alert)
    t.ok(annotations.description.length > 20, alert)
  }
})

t.test('over the series of a server that is well none fires', async (t) => {
  const longest = await firing(WELL, rules)
  for (const rule of rules)
    t.ok(longest.get(rule.alert)! < Math.max(1, secondsOf(rule.for)) && (rule.for !== undefined || longest.get(rule.alert) === -1), rule.alert)
})

for (const rule of rules) {
  t.test(`${rule.alert} fires`, async (t) => {
    for (const made of FIRE[rule.alert] ?? []) {
      // Beside a server that is well, so that sums and quotients have other series in them.
      const names = new Set(
        parseExposition(
          Object.keys(made)
            .map((series) => `${series} 0`)
            .join('\n'),
        ).map(({ name }) => name.replace(/_bucket$/, '')),
      )
      const others = Object.entries(WELL).filter(([series]) => !names.has(series.replace(/(_bucket)?(\{.*)?$/, '')))
      const longest = await firing({ ...Object.fromEntries(others.filter(([, value]) => typeof value === 'number')), ...made }, [rule])
      t.ok(longest.get(rule.alert)! >= secondsOf(rule.for), `${longest.get(rule.alert)} s of ${rule.for ?? 'any'}`)
    }
  })
}
