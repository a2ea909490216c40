/** Who is asking, before anything of the body is read: request id, unknown paths, credentials. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import type { Auth, Credentials } from '../auth/auth.ts'
import { clientCertificate, plainAddress } from '../lib/network/index.ts'
import type { Action } from '../plugin.ts'

interface AdmissionOptions {
  auth: Auth
  draining(): boolean
  /** Answers for a path or method that no route has. */
  refuse(request: FastifyRequest, reply: FastifyReply): unknown
}

export const admission = fastifyPlugin<AdmissionOptions>(
  async (http, { auth, draining, refuse }) => {
    http.addHook('onRequest', (request, reply, done) => {
      // Before its body is read: an unknown path is 404 whatever it carries.
      if (request.is404) return void refuse(request, reply)
      const { config, url } = request.routeOptions
      try {
        const context = auth.admit(credentialsOf(request), config.action as Action, url ?? request.url)
        if (!(context instanceof Promise)) {
          request.svcContext = context
          return done()
        }
        context.then((admitted) => {
          request.svcContext = admitted
          done()
        }, done)
      } catch (error) {
        done(error as Error)
      }
    })
    http.addHook('onSend', (_request, reply, payload, done) => {
      if (draining()) reply.header('connection', 'close')
      done(null, payload)
    })
  },
  { name: 'svc-admission' },
)

const NO_CERTIFICATE = {}

function credentialsOf(request: FastifyRequest): Credentials {
  const { socket } = request.raw
  const certificate = clientCertificate(socket)
  return {
    protocol: 'http',
    path: request.url.split('?', 1)[0],
    header: (name: string) => {
      const value = request.headers[name]
      return Array.isArray(value) ? value[0] : value
    },
    query: (name: string) => {
      const value = (request.query as Record<string, unknown> | undefined)?.[name]
      return typeof value === 'string' ? value : undefined
    },
    ...(certificate === undefined ? NO_CERTIFICATE : { certificate }),
    address: plainAddress(socket.remoteAddress),
    requestId: request.id,
  }
}
