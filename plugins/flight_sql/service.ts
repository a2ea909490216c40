/** What answers the calls; with it comes Arrow's library. */
import type { Counter, Svc } from 'svcdb'
import { Actions } from './actions.ts'
import type { FlightSqlConfig } from './config.ts'
import { type FlightDependencies, FlightHandler } from './handler.ts'
import { PutHandler } from './put-handler.ts'

export interface FlightService {
  handler: FlightHandler
  actions: Actions
  puts: PutHandler
}

interface ServiceDependencies extends Omit<FlightDependencies, 'handshakeMs'> {
  /** Counts points written. */
  points: Counter
}

export function flightService(svc: Svc, config: FlightSqlConfig, dependencies: ServiceDependencies): FlightService {
  const { queries, statements, sessions, points } = dependencies
  return {
    handler: new FlightHandler(svc, { ...dependencies, handshakeMs: config.handshake_timeout_secs * 1000 }),
    actions: new Actions(queries, statements, sessions),
    puts: new PutHandler(svc, config, statements, points),
  }
}
