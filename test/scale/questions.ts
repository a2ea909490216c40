/** What is asked of each cell: questions over the last hour, which holds the same rows whatever lies before it, and questions over every series. */
import { hostName } from './rows.ts'

export interface Question {
  name: string
  sql?: string
  promql?: { path: 'query' | 'query_range'; params: Record<string, string | number> }
  /** Its cost grows with the series, as it must: asked fewer times. */
  large?: true
}

const HOUR = 3600

/** @param end seconds, of the newest row. */
export function questionsOf(series: number, end: number): Question[] {
  const spread = (share: number): string => hostName(Math.floor(series * share))
  const one = spread(0.37)
  const eight = Array.from({ length: 8 }, (_, i) => spread((i + 0.5) / 8))
  const from = end - HOUR
  const hour = `_time > to_timestamp(${from}) AND _time <= to_timestamp(${end})`
  const minute = "time_bucket(INTERVAL '1 minute', _time) AS t"
  const range = (query: string, step: number): Question['promql'] => ({ path: 'query_range', params: { query, start: from, end, step } })
  const instant = (query: string): Question['promql'] => ({ path: 'query', params: { query, time: end } })
  return [
    { name: 'one series, 1 h, SQL', sql: `SELECT _time, "user" FROM cpu WHERE host = '${one}' AND ${hour} ORDER BY _time` },
    { name: 'one series, 1 h, PromQL', promql: range(`cpu_user{host="${one}"}`, 60) },
    { name: 'single-groupby-1-1-1, SQL', sql: `SELECT ${minute}, max("user") FROM cpu WHERE host = '${one}' AND ${hour} GROUP BY 1 ORDER BY 1` },
    { name: 'single-groupby-1-1-1, PromQL', promql: range(`max_over_time(cpu_user{host="${one}"}[1m])`, 60) },
    {
      name: 'single-groupby-3-8-1, SQL',
      sql: `SELECT ${minute}, max("user"), max(system), max(idle) FROM cpu WHERE host IN (${eight.map((host) => `'${host}'`).join(', ')}) AND ${hour} GROUP BY 1 ORDER BY 1`,
    },
    { name: 'eight by regular expression, PromQL', promql: range(`max(max_over_time(cpu_user{host=~"${eight.join('|')}"}[1m]))`, 60) },
    { name: 'a scan by regular expression, PromQL', promql: instant(`max(cpu_user{host=~".*${one.slice(-6)}"})`) },
    { name: 'high-cpu, SQL', sql: `SELECT count(*) FROM cpu WHERE "user" > 90 AND ${hour}`, large: true },
    {
      name: 'double-groupby-1, SQL',
      sql: `SELECT time_bucket(INTERVAL '1 hour', _time) AS t, dc, avg("user") FROM cpu WHERE ${hour} GROUP BY 1, 2`,
      large: true,
    },
    { name: 'double-groupby-1, PromQL', promql: instant('avg by (dc) (avg_over_time(cpu_user[1h]))'), large: true },
    { name: 'rate-5m-all, PromQL', promql: instant('sum by (region) (rate(cpu_user[5m]))'), large: true },
    { name: 'lastpoint, SQL', sql: 'SELECT count(*) FROM (SELECT host, max(_time), arg_max("user", _time) FROM cpu GROUP BY host)', large: true },
    { name: 'group by all, SQL', sql: 'SELECT host, avg("user") FROM cpu GROUP BY host', large: true },
    { name: 'group by all, ordered, SQL', sql: 'SELECT host, avg("user") AS a, max(system) FROM cpu GROUP BY host ORDER BY a DESC LIMIT 10', large: true },
  ]
}
