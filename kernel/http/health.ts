/** /, /health, /ready, /ping, the metrics and the log level. */
import type { FastifyInstance } from 'fastify'
import { prefersOpenMetrics } from '../exemplars.ts'
import { SvcError } from '../lib/errors/index.ts'
import { Type } from '../lib/schema/index.ts'
import { INFLUX_VERSION } from '../lib/version/index.ts'
import { LOG_LEVELS, type LogLevel, type Logs } from '../log.ts'
import type { MetricsRegistry } from '../metrics.ts'
import { INDEX_PAGE, INDEX_POLICY } from './index-page.ts'
import { NOTHING } from './openapi.ts'
import { vary } from './vary.ts'

interface Health {
  version: string
  /** Why the node is not ready, or undefined. */
  notReady(): string | undefined
  uptimeSecs(): number
  /** When the node started, by the wall clock of then. */
  started: string
}

const uptime = Type.Integer({ description: 'Seconds since the start' })
const up = Type.Object({
  name: Type.String(),
  status: Type.String(),
  message: Type.String(),
  checks: Type.Array(Type.Unknown()),
  version: Type.String(),
  uptime_secs: uptime,
})
const readiness = {
  200: Type.Object(
    { ready: Type.Boolean(), status: Type.String(), started: Type.String(), up: Type.String(), uptime_secs: uptime },
    { description: 'It does' },
  ),
  503: Type.Object({ ready: Type.Boolean(), reason: Type.String() }, { description: 'It does not, and why' }),
}
const levels = Type.Object({ previous: Type.String(), current: Type.String() })

// Exempt by [auth] exempt_paths, unless that says otherwise.
const open = { action: 'read' as const }

export function addHealthRoutes(http: FastifyInstance, health: Health): void {
  const index = { config: { action: 'public' as const }, schema: { tags: ['health'], summary: 'A short page, for browsers and connection checks' } }
  http.get('/', index, async (_request, reply) => {
    return reply.type('text/html; charset=utf-8').header('content-security-policy', INDEX_POLICY).send(INDEX_PAGE)
  })
  // Both as InfluxDB 2 answers them as well: its clients take `name`, `status` "pass", `started` and `up` for granted.
  for (const path of ['/health', '/healthz']) {
    http.get(path, { config: open, schema: { tags: ['health'], summary: 'Answers while the process runs', response: { 200: up } } }, async () => {
      const message = health.notReady() ?? 'ready for queries and writes'
      return { name: 'svc', status: 'pass', message, checks: [], version: health.version, uptime_secs: health.uptimeSecs() }
    })
  }
  for (const path of ['/ready', '/readyz']) {
    http.get(path, { config: open, schema: { tags: ['health'], summary: 'Whether the node accepts writes', response: readiness } }, async (_request, reply) => {
      const reason = health.notReady()
      if (reason !== undefined) return reply.code(503).send({ ready: false, reason })
      const uptime = health.uptimeSecs()
      return { ready: true, status: 'ready', started: health.started, up: `${uptime}s`, uptime_secs: uptime }
    })
  }
  // InfluxDB clients ask for it and read the two headers.
  const ping = {
    tags: ['health'],
    summary: 'Empty answer with the InfluxDB version that is spoken',
    querystring: Type.Object({
      verbose: Type.Optional(Type.String({ description: 'Other than 0 and false: 200 with the version, which load balancers and microcontrollers wait for' })),
    }),
    response: { 200: Type.Object({ version: Type.String() }, { description: 'With `verbose`' }), 204: NOTHING },
  }
  http.get<{ Querystring: { verbose?: string } }>('/ping', { config: open, schema: ping }, async ({ query: { verbose = '' } }, reply) => {
    reply.header('x-influxdb-version', INFLUX_VERSION).header('x-influxdb-build', 'svc')
    return ['', '0', 'false'].includes(verbose) ? reply.code(204).send() : { version: INFLUX_VERSION }
  })
}

/** @param action `admin` where the figures are about more than the caller's own data. */
export function addMetricsRoute(http: FastifyInstance, path: string, metrics: MetricsRegistry, action: 'read' | 'admin'): void {
  const schema = { tags: ['health'], summary: 'Metrics in the Prometheus text format, or as OpenMetrics where Accept asks for it' }
  if (http.hasRoute({ method: 'GET', url: path }))
    throw new SvcError('CONFIG_ERROR', `cannot use server.metrics_path "${path}": something else is answered there; choose another path`)
  http.get(path, { config: { action }, schema }, async (request, reply) => {
    vary(reply, 'Accept')
    if (prefersOpenMetrics(request.headers.accept)) return reply.type(metrics.openMetricsType).send(await metrics.openMetrics())
    return reply.type(metrics.contentType).send(await metrics.text())
  })
}

export function addLogLevelRoute(http: FastifyInstance, logs: Logs): void {
  const schema = {
    tags: ['admin'],
    summary: 'Changes the log level until the next start',
    body: Type.Object({ level: Type.String() }, { additionalProperties: false }),
    response: { 200: levels },
  }
  http.put<{ Body: { level: string } }>('/api/v1/admin/log-level', { config: { action: 'admin' }, schema }, async (request) => {
    const { level } = request.body
    if (!LOG_LEVELS.includes(level as LogLevel))
      throw new SvcError('BAD_REQUEST', `cannot set log level "${level.slice(0, 64)}": it is one of ${LOG_LEVELS.join(', ')}`)
    const previous = logs.level
    logs.level = level as LogLevel
    return { previous, current: level }
  })
}
