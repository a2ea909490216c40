/** The dashboards and rules as files: laid out so that Grafana shows them as meant, and asking for metrics that there are. */
import t from 'tap'
import { parse } from 'yaml'
import { filesBelow, read } from '../support/tree.ts'
import { type Dashboard, type Panel, panelsOf, variablesIn } from './grafana.ts'

const files = filesBelow('plugins/dashboards/models', /\.json$/)
const dashboards = files.map((file): [string, Dashboard] => [file, JSON.parse(read(file))])

/** Labels by the name of a metric, out of the reference, with what Prometheus makes of histograms. */
const metrics = new Map<string, Set<string>>()
for (const [, name, type, labels] of read('docs/reference/metrics.md').matchAll(/^\| (svc_\w+) \| (\w+) \| ([\w, ]*) \|/gm)) {
  const set = new Set(labels.split(', ').filter(Boolean))
  if (type !== 'histogram') metrics.set(name, set)
  else for (const part of ['_bucket', '_sum', '_count']) metrics.set(name + part, part === '_bucket' ? new Set([...set, 'le']) : set)
}
/** What Grafana puts the chosen data source in the place of. */
const CHOSEN = `\${datasource}`
const OF_TARGETS = ['job', 'instance']
/** Set for each query by Grafana; macros of the data source FlightSQL. */
const BUILT_IN = ['__rate_interval', '__interval', '__timeRange', '__dateBin']

/** Selectors of svc's metrics in an expression, and the labels it groups by. */
function faultsOf(expr: string): string[] {
  const faults: string[] = []
  const selected = new Set<string>()
  for (const [, name, matchers] of expr.matchAll(/\b(svc_\w+)(?:\{([^}]*)\})?/g)) {
    const labels = metrics.get(name)
    if (labels === undefined) faults.push(`${name} is no metric`)
    for (const label of labels ?? []) selected.add(label)
    for (const [, label] of (matchers ?? '').matchAll(/(\w+)\s*(?:=~|!~|!=|=)\s*"/g))
      if (labels !== undefined && !labels.has(label) && !OF_TARGETS.includes(label)) faults.push(`${name} has no label ${label}`)
  }
  for (const [, list] of expr.matchAll(/\bby \(([^)$]*)\)/g))
    for (const label of list.split(/, ?/))
      if (selected.size > 0 && !selected.has(label) && !OF_TARGETS.includes(label)) faults.push(`no metric has the label ${label}`)
  return faults
}

t.test('the check of names sees what is wrong', async (t) => {
  t.ok(metrics.size > 100)
  t.same(faultsOf('sum by (le) (rate(svc_write_duration_seconds_bucket{instance="a"}[5m]))'), [])
  t.same(faultsOf('svc_nothing'), ['svc_nothing is no metric'])
  t.same(faultsOf('svc_write_duration_seconds'), ['svc_write_duration_seconds is no metric'])
  t.same(faultsOf('svc_series{host="a"}'), ['svc_series has no label host'])
  t.same(faultsOf('sum by (reasons) (svc_write_errors_total)'), ['no metric has the label reasons'])
})

t.test('dashboards have a uid and a title of their own, named as their file', async (t) => {
  t.ok(dashboards.length >= 5)
  for (const [file, { uid }] of dashboards) t.equal(file, `plugins/dashboards/models/${uid}.json`)
  t.equal(new Set(dashboards.map(([, { title }]) => title)).size, dashboards.length)
})

for (const [file, dashboard] of dashboards) {
  t.test(`${file}: panels`, async (t) => {
    const every = dashboard.panels.flatMap((panel) => [panel, ...(panel.panels ?? [])])
    t.equal(new Set(every.map(({ id }) => id)).size, every.length, 'ids are different')
    for (const { title, gridPos } of every) {
      const { x, y, w, h } = gridPos
      t.ok(x >= 0 && y >= 0 && w > 0 && h > 0 && x + w <= 24, `${title} lies in the grid`)
    }
    const overlap = (a: Panel['gridPos'], b: Panel['gridPos']): boolean => a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h
    for (const [i, a] of every.entries()) for (const b of every.slice(i + 1)) t.notOk(overlap(a.gridPos, b.gridPos), `${a.title} and ${b.title}`)
    for (const { title, targets } of panelsOf(dashboard))
      t.equal(new Set(targets?.map(({ refId }) => refId)).size, targets?.length, `${title}: refIds are different`)
  })

  t.test(`${file}: data sources are chosen by the reader, and variables are declared before they are used`, async (t) => {
    const { list } = dashboard.templating
    t.match(list[0], { name: 'datasource', type: 'datasource' })
    const known = new Set(BUILT_IN)
    for (const { name, query } of list) {
      for (const used of variablesIn(typeof query === 'object' ? query.query : (query ?? ''))) t.ok(known.has(used), `${name} uses ${used}`)
      known.add(name)
    }
    for (const [, uid] of JSON.stringify(dashboard).matchAll(/"uid":"([^"]*)"/g)) t.ok([CHOSEN, dashboard.uid].includes(uid), uid)
    for (const panel of panelsOf(dashboard)) {
      t.equal(panel.datasource?.type, list[0].query, panel.title)
      for (const { datasource, expr = '', queryText = '' } of panel.targets ?? []) {
        t.equal(datasource?.type, list[0].query, panel.title)
        for (const used of variablesIn(expr + queryText)) t.ok(known.has(used), `${panel.title} uses ${used}`)
      }
    }
  })

  t.test(`${file}: metrics`, async (t) => {
    for (const { title, targets } of panelsOf(dashboard)) for (const { expr = '' } of targets ?? []) t.same(faultsOf(expr), [], title)
  })
}

t.test('alert rules ask for metrics that there are', async (t) => {
  const { groups } = parse(read('plugins/dashboards/rules/svc.yml')) as { groups: { rules: { alert: string; expr: string }[] }[] }
  const rules = groups.flatMap(({ rules }) => rules)
  for (const { alert, expr } of rules) t.same(faultsOf(expr), [], alert)
  t.match(read('plugins/dashboards/README.md'), `The rules name ${rules.length} conditions`)
})
