/** Requests that are small, to a node with as many measurements as Prometheus and OTLP make of many metrics. */
import { FORM, type HttpBody, JSON_TYPE, NANOS, range, TEXT } from './loop-body.ts'

/** Measurements of one write: as many new ones as it may begin. */
const AT_ONCE = 5000

/** @param size of so many at most, how many this run has. */
export function listingBodies(size: (most: number) => number): HttpBody[] {
  const get = (name: string, path: string): HttpBody => ({
    over: 'http',
    method: 'GET',
    name,
    path,
    headers: {},
    body: () => Buffer.alloc(0),
    prepare: (url) => written(url, size(100_000)),
  })
  const post = (name: string, path: string, headers: Record<string, string>, body: string): HttpBody => ({
    ...{ over: 'http', name, path, headers, body: () => Buffer.from(body) },
    prepare: (url) => written(url, size(100_000)),
  })
  const year = { start: '2000-01-01T00:00:00Z', stop: '2001-01-01T00:00:00Z' }
  return [
    get('GET /measurements: all of many', '/api/v1/measurements?limit=100000'),
    get('GET /measurements: a page of many', '/api/v1/measurements?limit=1'),
    get('GET /measurements/{name}/schema: one of many', '/api/v1/measurements/listed0/schema'),
    post('delete_series: patterns on many names', '/api/v1/admin/tsdb/delete_series', FORM, range(100, (i) => `match[]={__name__=~".*none${i}.*"}`).join('&')),
    post(
      'POST /api/v2/delete: rules on many names',
      '/api/v2/delete?bucket=default',
      JSON_TYPE,
      JSON.stringify({ ...year, predicate: `${range(900, (i) => `_measurement!="n${i}" AND `).join('')}_measurement="none"` }),
    ),
  ]
}

const done = new Set<string>()

async function written(url: string, measurements: number): Promise<void> {
  if (done.has(url)) return
  for (let at = 0; at < measurements; at += AT_ONCE) {
    const body = range(Math.min(AT_ONCE, measurements - at), (i) => `listed${at + i},host=a v=1 ${NANOS}`).join('\n')
    const answer = await fetch(`${url}/write?backfill=true`, { method: 'POST', headers: TEXT, body })
    if (answer.status !== 204) throw new Error(await answer.text())
  }
  done.add(url)
}
