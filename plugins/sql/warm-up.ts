/** Statements of the kinds that dashboards send, so that their code is compiled before somebody waits for it. Their texts differ: equal ones are parsed once. */
import { moduleUrl } from 'svcdb/lib/modules'
import { WARM_UP_ROWS, type WarmUp } from 'svcdb/lib/warm-up'
import type { SqlArgs } from './sql-job.ts'

const { namespace, measurement, metric, hosts, start, end } = WARM_UP_ROWS
const MAX_ROWS = 10_000

export const sqlWarmUp: WarmUp = {
  module: moduleUrl('./sql-job.ts', import.meta.url),
  args: (round) => statements(round).map((query, i): SqlArgs => ({ namespace, query, maxRows: MAX_ROWS, format: (round + i) % 8 === 7 ? 'csv' : 'json' })),
}

function statements(round: number): string[] {
  const host = `h${round % hosts}`
  const some = [0, 3, 5, 11].map((i) => `'h${(round + i) % hosts}'`).join(', ')
  const at = (seconds: number): string => `timestamp '${new Date(seconds * 1000).toISOString().slice(0, 19)}Z'`
  const from = at(start + (round % 30) * 7)
  const during = `_time >= ${from} AND _time < ${at(end - (round % 20))}`
  const minute = "time_bucket(INTERVAL '1 minute', _time) AS t"
  const ten = "time_bucket(INTERVAL '10 minutes', _time) AS t"
  return [
    `SELECT ${minute}, max(load) FROM ${measurement} WHERE host = '${host}' AND ${during} GROUP BY 1 ORDER BY 1`,
    `SELECT ${minute}, avg(load), min(temperature), max(bytes) FROM ${measurement} WHERE host IN (${some}) AND ${during} GROUP BY 1 ORDER BY 1`,
    `SELECT ${ten}, host, avg(load) AS average FROM ${measurement} WHERE ${during} GROUP BY 1, 2 ORDER BY 1, 2`,
    `SELECT count(*) FROM ${measurement} WHERE load > ${60 + (round % 30)} AND ${during}`,
    `SELECT host, max(_time), arg_max(load, _time) FROM ${measurement} GROUP BY host ORDER BY host`,
    `SELECT _time, host, load, temperature FROM ${measurement} WHERE host = '${host}' AND ${during} ORDER BY _time DESC LIMIT ${20 + round}`,
    `SELECT ${ten}, zone, avg(load), avg(temperature), sum(bytes), count(*) FROM ${measurement} WHERE ${during} GROUP BY 1, 2 ORDER BY 1, 2`,
    `SELECT host, max(load) AS highest FROM ${measurement} WHERE zone = 'z${round % 4}' AND ${during} GROUP BY host ORDER BY highest DESC LIMIT 5`,
    `SELECT ${minute}, host, last(value, _time) FROM ${metric} WHERE host IN (${some}) AND ${during} GROUP BY 1, 2 ORDER BY 1, 2`,
    `SELECT _time, value FROM ${metric} WHERE host = '${host}' AND ${during}`,
    // Those are DuckDB's.
    `SELECT zone, quantile_cont(load, 0.9) AS q FROM ${measurement} WHERE ${during} AND up GROUP BY zone HAVING count(*) > ${round} ORDER BY q`,
    `WITH a AS (SELECT ${ten}, host, avg(temperature) AS v FROM ${measurement} WHERE ${during} GROUP BY 1, 2) SELECT t, max(v) FROM a WHERE v > ${round} GROUP BY t ORDER BY t`,
  ]
}
