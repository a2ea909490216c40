/** What a node answers to: its HTTP routes as the router has them, and the methods of its gRPC listeners. */
import { join } from 'node:path'
import { loadSync } from '@grpc/proto-loader'
import type { FastifyInstance } from 'fastify'
import { ROOT } from '../support/tree.ts'

export interface HttpRoute {
  method: string
  /** With parameters as `:name`. */
  path: string
}

/** Routes whose answers do not end, and a query that has each answer at once, with a refusal, when all others have let the caller in. */
export const ENDLESS: Readonly<Record<string, string>> = {
  '/api/v1/cdc/stream': '?event_type=none',
  '/api/v1/annotations/stream': '?last_event_id=none',
}

/** @param value stands in for parameters. */
export const urlOf = (path: string, value: string): string => `${path.replaceAll(/:\w+/g, value)}${ENDLESS[path] ?? ''}`

const LINE = /^((?:[│ ] {3})*)(?:[├└]── |│ {3}| {4})(\S+) \(([A-Z, ]+)\)/

/** Reads the router's own picture of itself: each level of the tree stands four characters further to the right and goes on with its parent's path. */
export function httpRoutes(app: FastifyInstance): HttpRoute[] {
  const routes = new Map<string, HttpRoute>()
  const parents: string[] = []
  for (const line of app.printRoutes({ commonPrefix: false }).split('\n')) {
    if (line.trim() === '') continue
    const [, indent, part, methods] = LINE.exec(line) ?? []
    if (part === undefined) throw new Error(`cannot read the router's line ${JSON.stringify(line)}`)
    // The second handler of a path, chosen by a constraint, is printed with the whole path again.
    const again = !line.includes('── ')
    const depth = indent.length / 4
    // Below a root of its own, "/", that path lacks the slash.
    const path = again ? `/${part.replace(/^\//, '')}` : depth === 0 ? part : parents[depth - 1] + part
    if (!again) parents[depth] = path
    for (const method of methods.split(', ')) routes.set(`${method} ${path}`, { method, path })
  }
  return [...routes.values()]
}

const FLIGHT = ['Handshake', 'GetFlightInfo', 'PollFlightInfo', 'GetSchema', 'DoGet', 'ListFlights', 'DoAction', 'ListActions', 'DoPut', 'DoExchange']

/** Paths of all methods, by the listener they are on. */
export function grpcMethods(): { grpc: string[]; flight: string[] } {
  const load = (file: string) => loadSync(join(ROOT, 'plugins/grpc', file))
  const grpc = ['svc.proto', 'health.proto', 'reflection-v1.proto', 'reflection-v1alpha.proto'].flatMap((file) =>
    Object.values(load(file)).flatMap((definition) =>
      'format' in definition ? [] : Object.values(definition as unknown as Record<string, { path: string }>).map(({ path }) => path),
    ),
  )
  return { grpc: [...new Set(grpc)], flight: FLIGHT.map((name) => `/arrow.flight.protocol.FlightService/${name}`) }
}
