/** What a tenant asks of each route; `name` is the measurement it names. */
import { ENDLESS } from './routes.ts'
import { PROMQL, SQL } from './tricks.ts'

export interface Ask {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  url: string
  headers?: Record<string, string>
  payload?: string | object
}

const form = { 'content-type': 'application/x-www-form-urlencoded' }
const text = { 'content-type': 'text/plain' }
const promQueries = (name: string): readonly string[] => [...PROMQL, name, `{__name__="${name}"}`, `count(${name})`, `{__name__=~"${name.slice(0, 3)}.*"}`]
const encoded = (fields: Record<string, string>): string => new URLSearchParams(fields).toString()
const times = (): Record<string, string> => {
  const now = Math.ceil(Date.now() / 1000)
  return { start: String(now - 3600), end: String(now + 60), step: '60', time: String(now + 1) }
}

/** By the route's path, without the prefix `/prom` that some have too. */
const BODIES: Record<string, (name: string) => Partial<Ask>[]> = {
  '/write': (name) => [
    { headers: text, payload: `${name},host=a value=1` },
    { headers: text, payload: `${name} value="text"` },
    { headers: text, payload: 'broken' },
  ],
  '/api/v1/write': (name) => [{ payload: [{ measurement: name, fields: { value: 1 } }] }, { payload: [{ measurement: name, fields: { value: 'x' } }] }],
  '/query': () => ['SHOW DATABASES', 'CREATE DATABASE "x"', 'SHOW MEASUREMENTS'].map((q) => ({ headers: form, payload: encoded({ q }) })),
  '/api/v1/svc/query': plan,
  '/api/v1/svc/query/explain': plan,
  '/api/v1/svc/sql': (name) =>
    [...SQL, `SELECT * FROM "${name}"`, `DESCRIBE "${name}"`, `SELECT * FROM "${name.slice(0, -1)}"`].map((query) => ({ payload: { query } })),
  '/api/v1/delete': (name) => [
    { payload: { measurement: name, matchers: [{ tag: 'host', op: '=', value: 'nobody' }] } },
    { payload: { measurement: name, start: 1, end: 2 } },
  ],
  '/api/v1/delete_batch': (name) => [{ payload: { deletes: [{ measurement: name, start: 1, end: 2 }] } }],
  '/api/v1/measurements/{name}/schema/fields': () => [{ payload: { name: 'extra', type: 'bool' } }],
  '/api/v1/export/parquet': (name) => [{ payload: { measurement: name } }, { payload: { measurement: name, output_path: 'shared' } }],
  '/api/v1/query': (name) =>
    promQueries(name).flatMap((query) => [
      { headers: form, payload: encoded({ query, stats: 'all', ...times() }) },
      { url: `?${encoded({ query, ...times() })}` },
    ]),
  '/api/v1/query_range': (name) =>
    promQueries(name).flatMap((query) => [
      { headers: form, payload: encoded({ query, stats: 'all', ...times() }) },
      { url: `?${encoded({ query, ...times() })}` },
    ]),
  '/api/v1/query_exemplars': (name) =>
    promQueries(name).map((query) => ({ headers: form, payload: encoded({ query, ...times() }), url: `?${encoded({ query, ...times() })}` })),
  '/api/v1/format_query': (name) => [{ url: `?${encoded({ query: name })}`, headers: form, payload: encoded({ query: name }) }],
  '/api/v1/parse_query': (name) => [{ url: `?${encoded({ query: name })}`, headers: form, payload: encoded({ query: name }) }],
  '/api/v1/labels': selectors,
  '/api/v1/label/{name}/values': selectors,
  '/api/v1/series': selectors,
  '/api/v1/metadata': (name) => [{ url: '' }, { url: `?metric=${name}` }, { url: '?limit=100000' }],
  '/api/v1/status/tsdb': () => [{ url: '' }, { url: '?limit=10000' }],
  '/api/v1/measurements': () => [{ url: '' }, { url: '?limit=1000&offset=0' }, { url: '?offset=1' }],
  '/api/v1/cdc/stream': () => [{ url: ENDLESS['/api/v1/cdc/stream'] }],
  '/api/v1/annotations/stream': () => [{ url: ENDLESS['/api/v1/annotations/stream'] }],
  '/api/v1/annotations': () => [{ url: '' }, { url: '?from=0&limit=100000' }],
  '/api/v1/signals': () => [{ url: '' }, { url: '?limit=1000000' }],
  '/api/v1/triggers': (name) =>
    ['SHOW TRIGGERS', `CREATE TRIGGER own ON "${name}" WHEN value > 0`, 'DROP TRIGGER hidden', 'ALTER TRIGGER hidden DISABLE'].map((query) => ({
      payload: { query },
    })),
  '/api/v1/admin/analytics/models': (name) => [
    { url: `?measurement=${name}` },
    { payload: { name: 'own', measurement: name, field: 'value', model_type: 'linear_regression' } },
    { payload: { name: 'into', measurement: 'own', field: 'value', forecast: { horizon: 1, target_measurement: name } } },
  ],
  '/api/v1/admin/analytics/retrain': (name) => [{ payload: { measurement: name } }, { payload: { measurement: name, model_name: 'hidden' } }],
  '/api/v1/analytics/models/{measurement}/{name}/forecast': () => [{ url: '' }, { url: '?version=1' }],
  '/api/v1/analytics/derived': (name) => [
    { payload: { name: 'own', query: `SELECT _time, value FROM "${name}" WHERE _time >= $1 AND _time < $2` } },
    { payload: { name: 'into', target_measurement: name, query: 'SELECT _time, value FROM own WHERE _time >= $1 AND _time < $2' } },
  ],
  '/api/v1/analytics/anomalies': (name) => [
    { payload: { measurement: name, field: 'value' } },
    { payload: { measurement: name, fields: ['value', 'used'], detector: 'pca' } },
  ],
  '/api/v1/rollups': (name) => [
    { payload: { name: 'own', source_measurement: name, target_measurement: `${name}_1h`, every: '1h', aggregations: ['avg'] } },
    { payload: { name: 'into', source_measurement: 'own', target_measurement: name, every: '1h', aggregations: ['avg'] } },
  ],
  '/api/v1/rollups/{name}/refresh': () => [{}, { url: '?start=1&end=2' }],
  '/api/v1/rollups/{name}/query': () => [{ url: '' }, { url: '?start=1' }],
  '/v1/metrics': (name) => [{ payload: otlp(name, 'a help') }],
  '/api/v1/otlp/metrics': (name) => [{ payload: otlp(name, 'a help') }],
  '/api/v1/admin/agents/runs': () => [{ payload: { capability: 'of.nobody' } }],
  '/api/v1/admin/agents/runs/{run}': () => [{ url: '' }],
  '/api/v1/admin/agents/runs/{run}/replay': () => [{ payload: { mode: 'strict' } }, { payload: { mode: 'resume' } }],
  '/api/v1/admin/agents/runs/{run}/cancel': () => [{ payload: { reason: 'not wanted' } }],
  '/api/v1/admin/log-level': () => [{ payload: { level: 'info' } }],
  '/api/v1/admin/backup': () => [{ payload: { target_dir: 'x' } }],
  '/api/v1/admin/backup/verify': () => [{ payload: { backup_dir: 'x' } }],
  '/api/v1/admin/restore': () => [{ payload: { backup_dir: 'x', target_dir: 'y' } }],
  '/api/v1/namespaces': () => [{ payload: { name: 'another' } }],
  '/api/v1/admin/auth/keys': () => [{ payload: { name: 'another', namespaces: ['acme'] } }, { payload: { name: 'another', admin: true } }],
  '/v1/namespaces': () =>
    ['', '?pageSize=1', '?parent=acme', '?pageToken=MS5h', `?pageToken=${Buffer.from('1.').toString('base64url')}`].map((url) => ({ url })),
  '/api/v1/namespaces/{name}/quota': () => [{ payload: { max_series: 1 } }],
}

function plan(name: string): Partial<Ask>[] {
  return [{ measurement: name }, { measurement: name, fields: ['value'] }, { measurement: name, matchers: [{ tag: 'host', op: '=~', value: '.*' }] }].map(
    (payload) => ({ payload }),
  )
}

function selectors(name: string): Partial<Ask>[] {
  const all = ['', '{__name__=~".+"}', '{__name__!=""}', name, `{__name__="${name}"}`, `{__namespace__=~".+"}`, '{host=~".+"}']
  return all.flatMap((match) => {
    const fields = match === '' ? times() : { 'match[]': match, ...times() }
    return [{ url: `?${encoded(fields)}`, headers: form, payload: encoded(fields) }]
  })
}

/** A metric as OTLP's JSON has it. */
export function otlp(name: string, description: string): object {
  const point = { timeUnixNano: String(BigInt(Date.now()) * 1_000_000n), asDouble: 1 }
  return { resourceMetrics: [{ scopeMetrics: [{ metrics: [{ name, description, gauge: { dataPoints: [point] } }] }] }] }
}

const LABELS = ['__name__', 'host', '__namespace__', 'instance']

/** @param paths of the description of the API: path → method → what it says. @returns at least one for each route. */
export function asksOf(paths: Record<string, Record<string, unknown>>, name: string): Ask[] {
  return Object.entries(paths).flatMap(([path, methods]) => {
    const route = path.replace('/api/v1/prom/', '/api/v1/')
    const bodies = BODIES[BODIES[route] === undefined && /write|influx/.test(route) ? '/write' : route]?.(name) ?? [{}]
    const names = route.startsWith('/api/v1/label/') ? LABELS : [name]
    return Object.keys(methods).flatMap((verb) => {
      const method = verb.toUpperCase() as Ask['method']
      return names.flatMap((each) =>
        bodies.map(({ url = '', headers, payload }): Ask => {
          const at =
            path
              .replace('{measurement}', encodeURIComponent(each))
              .replace('{name}', encodeURIComponent(each))
              .replace('{namespace}', 'nobodys')
              .replace('{address}', '192.0.2.1') + url
          return method === 'GET'
            ? { method, url: at }
            : { method, url: at, ...(headers === undefined ? {} : { headers }), ...(payload === undefined ? {} : { payload }) }
        }),
      )
    })
  })
}
