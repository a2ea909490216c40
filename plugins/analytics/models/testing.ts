/** Nodes with series for tests of models: minutes, with a season of twelve. */
import type { Clock, definePlugin } from 'svcdb'
import { boot, type TestNode } from 'svcdb/testkit'
import type { Test } from 'tap'

export const MODELS = '/api/v1/admin/analytics/models'
export const MINUTE = 60_000_000_000n
/** 400 minutes before now: forecasts of the next minutes may be written. */
export const begin = (BigInt(Date.now()) / 60_000n - 400n) * MINUTE
export const season = (i: number, by = 1): number => 50 + 10 * by * Math.sin((2 * Math.PI * i) / 12) + (((i * 7919) % 13) - 6) / 20

interface Booted {
  config?: { server?: object; [section: string]: object | undefined }
  analytics?: object
  dataDir?: string
  plugins?: readonly (string | ReturnType<typeof definePlugin>)[]
  clock?: Clock
}

export async function node(t: Test, { config, analytics = {}, dataDir, plugins = [], clock }: Booted = {}): Promise<TestNode> {
  const one = await boot({
    plugins: ['line_protocol', 'sql', 'native', ...plugins] as never,
    storage: 'embedded',
    ...(dataDir === undefined ? {} : { dataDir }),
    ...(clock === undefined ? {} : { clock }),
    // On a busy machine a statement waits for a process to be there.
    config: {
      analytics: { watch_interval_secs: 86_400, derived_timeout_secs: 300, ...analytics },
      ...config,
      server: { sql_query_timeout_secs: 300, ...config?.server },
    },
  })
  t.teardown(() => one.stop())
  return one
}

export async function write(one: TestNode, lines: string[], headers = {}): Promise<void> {
  const answer = await one.inject({
    method: 'POST',
    url: '/write?backfill=true',
    headers: { 'content-type': 'text/plain', ...headers },
    payload: lines.join('\n'),
  })
  if (answer.statusCode !== 204) throw new Error(answer.body)
}

export const line = (i: number, v: number, host = 'a', measurement = 'cpu'): string => `${measurement},host=${host} load=${v} ${begin + BigInt(i) * MINUTE}`
export const lines = (from: number, to: number, value: (i: number) => number = season, host = 'a'): string[] =>
  Array.from({ length: to - from }, (_, k) => line(from + k, value(from + k), host))

export async function call(one: TestNode, method: 'GET' | 'POST' | 'DELETE', url: string, payload?: object, headers = {}) {
  const answer = await one.inject({ method, url, headers, ...(payload === undefined ? {} : { payload }) })
  return { status: answer.statusCode, body: answer.json() }
}

export const model = (more: object = {}) => ({ name: 'load', measurement: 'cpu', field: 'load', model_type: 'holt_winters', params: { period: 12 }, ...more })
