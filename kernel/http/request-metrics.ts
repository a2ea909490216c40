/** Requests by what they do to data and how they ended, whatever plugin answered them. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Metrics } from '../metrics.ts'

/** What counts an answer once it is sent. Labels are few: the action of the route, "none" where no route is, and the status. */
export function countRequests(metrics: Metrics): (request: FastifyRequest, reply: FastifyReply) => void {
  const requests = metrics.counter('http_requests_total', 'HTTP requests answered, by what the route does to data and by status', ['action', 'status'])
  const duration = metrics.histogram('http_request_duration_seconds', 'Time from the head of an HTTP request to the end of its answer, without event streams', [
    'action',
  ])
  return (request, reply) => {
    const action = request.is404 ? 'none' : (request.routeOptions.config.action ?? 'none')
    requests.inc({ action, status: reply.statusCode })
    // It ends when the client leaves, which says nothing about the server.
    if (!String(reply.getHeader('content-type') ?? '').startsWith('text/event-stream')) duration.observe({ action }, reply.elapsedTime / 1000)
  }
}
