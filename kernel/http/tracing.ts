/** A span for each request that is recorded: from its head to the end of its answer, or of its connection. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { type Attributes, inSpan, type Span, type TraceContext, traceparentOf } from '../lib/trace/index.ts'
import type { Tracing } from '../tracing.ts'

declare module 'fastify' {
  interface FastifyRequest {
    svcSpan: Span | null
  }
}

export const tracingHooks = fastifyPlugin<{ tracing: Tracing }>(
  async (http, { tracing }) => {
    http.decorateRequest('svcSpan', null)
    http.addHook('onRequest', (request, reply, done) => {
      if (!tracing.on) return done()
      const span = tracing.begin(nameOf(request), { kind: 'server', attributes: attributesOf(request) }, contextOf(request))
      if (span === undefined) return done()
      request.svcSpan = span
      reply.header('traceresponse', traceparentOf(span))
      // Not the hook of answers: there is none where the client leaves.
      reply.raw.once('close', () => end(span, request, reply))
      inSpan(span, done)
    })
    http.addHook('onResponse', (request, reply, done) => {
      if (!tracing.on || request.svcSpan !== null || reply.statusCode < 500) return done()
      const attributes = { ...attributesOf(request), 'http.response.status_code': reply.statusCode, 'svc.request_id': request.id }
      const options = { kind: 'server' as const, attributes, start: Date.now() - reply.elapsedTime }
      tracing.failed(nameOf(request), options, contextOf(request), statusText(reply))
      done()
    })
  },
  { name: 'svc-tracing' },
)

function end(span: Span, request: FastifyRequest, reply: FastifyReply): void {
  span.set('svc.request_id', request.id)
  if (request.svcContext !== null) span.set('svc.namespace', request.svcContext.namespace)
  if (reply.raw.writableFinished) {
    span.set('http.response.status_code', reply.statusCode)
    if (reply.statusCode >= 500) span.fail(statusText(reply))
  } else span.fail('the client has gone away')
  span.end()
}

const statusText = (reply: FastifyReply): string => `HTTP ${reply.statusCode}`

/** Of the route and not of the path: a name is one of few. */
function nameOf(request: FastifyRequest): string {
  const { url } = request.routeOptions
  return request.is404 || url === undefined ? request.method : `${request.method} ${url}`
}

function attributesOf(request: FastifyRequest): Attributes {
  const route = request.is404 ? undefined : request.routeOptions.url
  return { 'http.request.method': request.method, 'url.path': request.url.split('?', 1)[0], ...(route === undefined ? {} : { 'http.route': route }) }
}

function contextOf({ headers }: FastifyRequest): TraceContext {
  return { traceparent: headers.traceparent as string | undefined, tracestate: headers.tracestate as string | undefined }
}
