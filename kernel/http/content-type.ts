/**
 * What a Content-Type is taken for. Some clients send the header without a value (Go's influxdb1-client, k6, influx 1.x), which is as if it were not
 * there; a value that is no media type is refused where the type matters, by the one who reads the body and can name what it takes.
 */
import type { FastifyRequest } from 'fastify'
import fastifyPlugin from 'fastify-plugin'

/** RFC 9110, section 8.3.1: type "/" subtype, then parameters or nothing. What fastify lets through to a parser is at least this. */
const MEDIA_TYPE = /^[\w!#$%&'*+.^`|~-]+\/[\w!#$%&'*+.^`|~-]+[ \t]*(?:;|$)/

/** Values that fastify would refuse by itself, without looking for who reads the body. */
const held = new WeakMap<FastifyRequest, string>()

export const contentType = fastifyPlugin(
  async (http) => {
    http.addHook('onRequest', (request, _reply, done) => {
      const given = request.headers['content-type']
      if (given !== undefined && !MEDIA_TYPE.test(given)) {
        if (given.trim() !== '') held.set(request, given)
        request.headers['content-type'] = undefined
      }
      done()
    })
  },
  { name: 'svc-content-type' },
)

/** Gives a request its Content-Type back, as it was sent: call it before the body is read. */
export function restoreContentType(request: FastifyRequest): void {
  const given = held.get(request)
  if (given !== undefined) request.headers['content-type'] = given
}
