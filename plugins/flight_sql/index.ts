import { type CallContext, definePlugin, NAMESPACES, type NamespaceLifecycle } from 'svcdb'
import { GrpcListener, type GrpcMethod } from 'svcdb/lib/grpc'
import { configSchema } from './config.ts'
import { Queries } from './queries.ts'
import type { FlightService } from './service.ts'
import { Sessions } from './sessions.ts'
import { sqlInfoValues } from './sql-info-values.ts'
import { Statements } from './statements.ts'

const SERVICE = '/arrow.flight.protocol.FlightService/'

export default definePlugin({
  id: 'flight_sql',
  summary: 'Answers SQL and takes record batches over Arrow Flight SQL, as ADBC, JDBC, Grafana and pyarrow speak it',
  stability: 'beta',
  protocols: ['flight'],
  config: configSchema,
  includes: ['analytics'],
  capabilities: ['points'],
  setup(svc, config) {
    const { max_sessions: maxSessions, max_prepared_statements: maxStatements, max_prepared_bytes: maxBytes } = config
    const lifetimeMs = config.prepared_lifetime_secs * 1000
    const monotonic = () => svc.clock.monotonic()
    const sessions = new Sessions({ maxSessions, lifetimeMs: config.session_lifetime_secs * 1000 }, monotonic)
    const statements = new Statements({ maxStatements, maxBytes, lifetimeMs }, monotonic)
    const queries = new Queries(svc, config)
    const info = sqlInfoValues({ statementTimeoutMs: lifetimeMs, maxStatements })
    const points = svc.metrics.counter('flight_sql_points_written_total', 'Points written by Flight SQL')
    let made: Promise<FlightService> | undefined
    // Arrow's library is loaded with the first call: most nodes never get one.
    const service = () => {
      made ??= import('./service.ts').then(({ flightService }) => flightService(svc, config, { queries, statements, sessions, info, points }))
      return made
    }
    svc.metrics.gauge('flight_sql_sessions', 'Logins that Flight SQL keeps', [], (gauge) => gauge.set(sessions.size))
    svc.metrics.gauge('flight_sql_prepared_statements', 'Prepared statements that Flight SQL keeps', [], (gauge) => gauge.set(statements.size))

    const listener = new GrpcListener(svc, config, methodsOf(service), 'flight', (given) => sessions.resolve(given))
    svc.start(() => svc.find<NamespaceLifecycle>(NAMESPACES)?.onEnd((namespace) => statements.forget(namespace)))
    svc.ready(() => listener.start())
    svc.drain(() => listener.drain())
    svc.stop(() => listener.stop())
  },
})

/** @param service loads what answers, with the first call. */
function methodsOf(service: () => Promise<FlightService>): GrpcMethod<CallContext>[] {
  return [
    {
      path: `${SERVICE}Handshake`,
      action: 'public',
      // A user name and a token: it is read before the caller is known.
      maxRequestBytes: 65_536,
      kind: 'bidi_stream',
      handle: async (requests, call, send) => (await service()).handler.handshake(requests, call, send),
    },
    {
      path: `${SERVICE}GetFlightInfo`,
      action: 'read',
      kind: 'unary',
      handle: async (request, call) => (await service()).handler.getFlightInfo(request, call),
    },
    {
      path: `${SERVICE}PollFlightInfo`,
      action: 'read',
      kind: 'unary',
      handle: async (request, call) => (await service()).handler.pollFlightInfo(request, call),
    },
    { path: `${SERVICE}GetSchema`, action: 'read', kind: 'unary', handle: async (request, call) => (await service()).handler.getSchema(request, call) },
    {
      path: `${SERVICE}DoGet`,
      action: 'read',
      kind: 'server_stream',
      handle: async (request, call, send) => (await service()).handler.doGet(request, call, send),
    },
    {
      path: `${SERVICE}ListFlights`,
      action: 'read',
      kind: 'server_stream',
      handle: async (request, call, send) => (await service()).handler.listFlights(request, call, send),
    },
    {
      path: `${SERVICE}DoAction`,
      action: 'read',
      kind: 'server_stream',
      handle: async (request, call, send) => (await service()).actions.run(request, call, send),
    },
    { path: `${SERVICE}ListActions`, action: 'read', kind: 'server_stream', handle: async (_request, _call, send) => (await service()).actions.list(send) },
    {
      path: `${SERVICE}DoPut`,
      action: 'public',
      carriesPoints: true,
      kind: 'bidi_stream',
      handle: async (requests, call, send) => (await service()).puts.doPut(requests, call, send),
    },
  ]
}
