/** Cross-origin requests: answers preflights and names the allowed origin. Registered only when origins are configured. */
import fastifyPlugin from 'fastify-plugin'
import { vary } from './vary.ts'

const METHODS = 'GET, HEAD, POST, PUT, DELETE, OPTIONS'
const EXPOSED = 'Retry-After, X-Request-Id'
/** Seconds a browser may remember a preflight; browsers cap it themselves. */
const MAX_AGE = '600'

export const cors = fastifyPlugin<{ origins: readonly string[] }>(
  async (http, { origins }) => {
    const any = origins.includes('*')
    const allowed = new Set(origins)
    http.addHook('onRequest', async (request, reply) => {
      const origin = request.headers.origin
      if (!any) vary(reply, 'Origin')
      if (origin === undefined || !(any || allowed.has(origin))) return
      reply.header('access-control-allow-origin', any ? '*' : origin)
      if (request.method !== 'OPTIONS' || request.headers['access-control-request-method'] === undefined) {
        reply.header('access-control-expose-headers', EXPOSED)
        return
      }
      reply.header('access-control-allow-methods', METHODS)
      reply.header('access-control-allow-headers', request.headers['access-control-request-headers'] ?? '*')
      reply.header('access-control-max-age', MAX_AGE)
      return reply.code(204).send()
    })
  },
  { name: 'svc-cors' },
)
