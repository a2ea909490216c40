import { type CallContext, definePlugin, NAMESPACES, type NamespaceLifecycle } from 'svcdb'
import { GrpcListener, type GrpcMethod } from 'svcdb/lib/grpc'
import { Actions } from './actions.ts'
import { configSchema } from './config.ts'
import { FlightHandler } from './handler.ts'
import { PutHandler } from './put-handler.ts'
import { Queries } from './queries.ts'
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
  capabilities: ['points', 'sql', 'jobs'],
  setup(svc, config) {
    const { max_sessions: maxSessions, max_prepared_statements: maxStatements, max_prepared_bytes: maxBytes } = config
    const lifetimeMs = config.prepared_lifetime_secs * 1000
    const monotonic = () => svc.clock.monotonic()
    const sessions = new Sessions({ maxSessions, lifetimeMs: config.session_lifetime_secs * 1000 }, monotonic)
    const statements = new Statements({ maxStatements, maxBytes, lifetimeMs }, monotonic)
    const queries = new Queries(svc, config)
    const info = sqlInfoValues({ statementTimeoutMs: lifetimeMs, maxStatements })
    const handler = new FlightHandler(svc, { queries, statements, sessions, info, handshakeMs: config.handshake_timeout_secs * 1000 })
    const actions = new Actions(queries, statements, sessions)
    const puts = new PutHandler(svc, config, statements)
    svc.metrics.gauge('flight_sql_sessions', 'Logins that Flight SQL keeps', [], (gauge) => gauge.set(sessions.size))
    svc.metrics.gauge('flight_sql_prepared_statements', 'Prepared statements that Flight SQL keeps', [], (gauge) => gauge.set(statements.size))

    const methods: GrpcMethod<CallContext>[] = [
      {
        path: `${SERVICE}Handshake`,
        action: 'public',
        // A user name and a token: it is read before the caller is known.
        maxRequestBytes: 65_536,
        kind: 'bidi_stream',
        handle: (requests, call, send) => handler.handshake(requests, call, send),
      },
      { path: `${SERVICE}GetFlightInfo`, action: 'read', kind: 'unary', handle: (request, call) => handler.getFlightInfo(request, call) },
      { path: `${SERVICE}PollFlightInfo`, action: 'read', kind: 'unary', handle: (request, call) => handler.pollFlightInfo(request, call) },
      { path: `${SERVICE}GetSchema`, action: 'read', kind: 'unary', handle: (request, call) => handler.getSchema(request, call) },
      { path: `${SERVICE}DoGet`, action: 'read', kind: 'server_stream', handle: (request, call, send) => handler.doGet(request, call, send) },
      { path: `${SERVICE}ListFlights`, action: 'read', kind: 'server_stream', handle: (request, call, send) => handler.listFlights(request, call, send) },
      { path: `${SERVICE}DoAction`, action: 'read', kind: 'server_stream', handle: (request, call, send) => actions.run(request, call, send) },
      { path: `${SERVICE}ListActions`, action: 'read', kind: 'server_stream', handle: (_request, _call, send) => actions.list(send) },
      {
        path: `${SERVICE}DoPut`,
        action: 'public',
        carriesPoints: true,
        kind: 'bidi_stream',
        handle: (requests, call, send) => puts.doPut(requests, call, send),
      },
    ]
    const listener = new GrpcListener(svc, config, methods, 'flight', (given) => sessions.resolve(given))
    svc.start(() => svc.find<NamespaceLifecycle>(NAMESPACES)?.onDelete((namespace) => statements.forget(namespace)))
    svc.ready(() => listener.start())
    svc.drain(() => listener.drain())
    svc.stop(() => listener.stop())
  },
})
