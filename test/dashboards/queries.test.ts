/** Every query of every dashboard that svc brings, asked of a busy node that holds its own metrics: no error, no warning, no empty panel. */
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { Asker, numbersOf, type TimeRange } from './ask.ts'
import { startBusyNode } from './busy-node.ts'
import { type Dashboard, interpolate, type Panel, panelsOf, sqlMacros, type Target, type Variable } from './grafana.ts'

const ROUNDS = 4
const STEP_SECS = 1

t.setTimeout(400_000)
const busy = await startBusyNode()
t.teardown(() => busy.stop())
const began = Date.now()
await busy.scrape()
for (let round = 0; round < ROUNDS; round++) {
  await busy.work(round)
  await busy.scrape()
  await sleep(1000)
}
// A schedule that was done since then.
await busy.work(ROUNDS)
const ended = await busy.scrape()
const range: TimeRange = { start: began / 1000, end: ended / 1000 + STEP_SECS }
const window = `${Math.ceil(range.end - range.start)}s`
const ask = new Asker(busy.node)
const BUILT_IN = { __rate_interval: window, __interval: `${STEP_SECS}s`, __timeRange: '$__timeRange', __dateBin: '$__dateBin' }

const answer = await busy.node.inject('/api/v1/dashboards/export')
const dashboards = answer.json() as Dashboard[]

/** What the reader of a dashboard can choose. @throws Error when a variable offers nothing. */
async function offers(variable: Variable, values: Record<string, string>): Promise<string[]> {
  const text = typeof variable.query === 'object' ? variable.query.query : (variable.query ?? '')
  if (variable.type === 'datasource' || variable.type === 'adhoc') return [variable.name]
  if (variable.type === 'custom') return text.split(',')
  const regex = new RegExp(/^\/(.*)\/$/.exec(variable.regex ?? '')?.[1] ?? '')
  const query = interpolate(text, values)
  const [, metric, label] = /^label_values\((?:(.+), )?(\w+)\)$/.exec(query) ?? []
  const found =
    label !== undefined
      ? await ask.labelValues(label, metric, range)
      : query === 'label_names()'
        ? await ask.labelValues('', undefined, range)
        : (await ask.sql(query)).rows.map(([first]) => String(first))
  const list = found.filter((one) => regex.test(one))
  if (list.length === 0) throw new Error(`the variable ${variable.name} offers nothing`)
  return list
}

/** @param wanted values of variables by their names; else the first that is offered. */
async function chosen(dashboard: Dashboard, wanted: Record<string, string>): Promise<Record<string, string>> {
  const values: Record<string, string> = { ...BUILT_IN }
  for (const variable of dashboard.templating.list) {
    const list = await offers(variable, values)
    const want = wanted[variable.name]
    if (want !== undefined && want !== variable.allValue && !list.includes(want)) throw new Error(`${variable.name} does not offer ${want}: ${list.join(', ')}`)
    values[variable.name] = want ?? list[0]
  }
  return values
}

/** What a server that is busy and well has none of, or only at moments. All else has to be more than zero somewhere. */
const MAY_BE_ZERO =
  /failures|panics|damaged|backpressure|waiting|queue_depth|_running\{|buffered|_held_|leased|awaiting|scratch|_cut_|refused_plans|skipped|truncated|prefetch|dropped|released|retired|cold_archive|jwt_keys|by_statement|rejected|quota|key_limited|banned|5\.\.|status="403"|counted_denials|by_time|_segments_deleted|in_flight|commits_behind|lag_commits|trigger_gaps|pending_repairs|rollups_parked|rollup_lag_seconds|rollup_queue_oldest|connector_up|mqtt_|kafka_|agent_plane_(attention|driving|queue_length|dead_letters|passes_broken|runs_taken_up|runs\{status="quarantined")/

/** What is wrong with it, or undefined. */
async function faultOf(target: Target, panel: Panel, values: Record<string, string>): Promise<string | undefined> {
  if (target.queryText !== undefined) return sqlFault(target, sqlMacros(interpolate(target.queryText, values), range, STEP_SECS))
  const query = interpolate(target.expr as string, values)
  const found = target.instant ? await ask.instant(query, range.end) : await ask.range(query, range, STEP_SECS)
  if (found.status !== 'success') return `${query}: ${found.error}`
  if (found.warnings !== undefined) return `${query}: ${found.warnings.join()}`
  const numbers = numbersOf(found)
  if (numbers.length === 0) return `${query}: no values`
  if (numbers.every((value) => value === 0) && !MAY_BE_ZERO.test(query)) return `${query}: nothing but zero`
  if (panel.type === 'stat' && found.data!.result.length !== 1) return `${query}: ${found.data!.result.length} series where one is shown`
  return undefined
}

async function sqlFault(target: Target, query: string): Promise<string | undefined> {
  const { columns, rows } = await ask.sql(query)
  if (rows.length === 0) return `${query}: no rows`
  if (columns.some(({ data_type }) => /decimal/i.test(data_type)) && !query.includes('*')) return `${query}: a decimal, which the data source does not show`
  if (rows.every((row) => row.slice(-1)[0] === null)) return `${query}: no values`
  if (target.format !== 'time_series') return undefined
  if (columns[0].name !== 'time' || !columns[0].data_type.startsWith('Timestamp')) return `${query}: a time series begins with a column time`
  return columns.some(({ data_type }) => /^(Float|Int)/.test(data_type)) ? undefined : `${query}: no column of numbers`
}

const CHOICES: Record<string, Record<string, string>[]> = {
  'svc-health': [{ instance: '.*' }, { instance: 'busy:8086' }],
  'svc-storage': [{ instance: '.*' }, { instance: 'busy:8086' }],
  'svc-automation': [{ instance: '.*' }, { instance: 'busy:8086' }],
  'svc-agents': [{ instance: '.*' }, { instance: 'busy:8086' }],
  'svc-access': [{ instance: '.*' }, { instance: 'busy:8086' }],
  'svc-measurements-promql': [
    { metric: 'load', by: 'host' },
    { metric: 'svc_http_requests_total', by: 'status', aggregation: 'sum', most: '50' },
  ],
  'svc-measurements-sql': [
    { measurement: 'load', field: 'value', by: 'host' },
    { measurement: 'svc_memory_bytes', field: 'value', by: 'consumer', rows: '20' },
  ],
}

t.test('every dashboard that is shipped is tried', async (t) => {
  t.equal(answer.statusCode, 200)
  t.same(dashboards.map(({ uid }) => uid).sort(), Object.keys(CHOICES).sort())
})

for (const dashboard of dashboards) {
  for (const choice of CHOICES[dashboard.uid] ?? []) {
    t.test(`${dashboard.title} with ${JSON.stringify(choice)}`, async (t) => {
      const values = await chosen(dashboard, choice)
      const panels = panelsOf(dashboard)
      t.ok(panels.length > 8)
      for (const panel of panels) {
        t.ok((panel.targets ?? []).length > 0, `${panel.title} asks something`)
        for (const target of panel.targets ?? []) t.equal(await faultOf(target, panel, values), undefined, `${panel.title}: ${target.refId}`)
      }
    })
  }
}

t.test('an empty panel, an error and a series too many are seen', async (t) => {
  const stat = { type: 'stat' } as Panel
  const values = { instance: '.*', ...BUILT_IN }
  t.match(await faultOf({ refId: 'A', expr: 'svc_nothing{instance=~"$instance"}' }, stat, values), /no values/)
  t.match(await faultOf({ refId: 'A', expr: 'svc_series / 0 * 0' }, stat, values), /no values/)
  t.match(await faultOf({ refId: 'A', expr: 'svc_series * 0' }, stat, values), /nothing but zero/)
  t.match(await faultOf({ refId: 'A', expr: 'sum(svc_series' }, stat, values), /parse error|unclosed/)
  t.match(await faultOf({ refId: 'A', expr: 'svc_memory_bytes' }, stat, values), /where one is shown/)
  t.match(await faultOf({ refId: 'A', queryText: 'SELECT 1 WHERE FALSE' }, stat, values), /no rows/)
})
