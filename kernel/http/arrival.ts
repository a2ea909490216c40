/**
 * What is looked at before anything else of a request: headers that may come once only; how the body is sent; on an open node who it is for and from which site, and behind a
 * client certificate from which site.
 */
import fastifyPlugin from 'fastify-plugin'
import type { Auth } from '../auth/auth.ts'
import { SvcError } from '../lib/errors/index.ts'
import { clientCertificate, type HostGuard, refuseDuplicates } from '../lib/network/index.ts'
import { envelope } from './errors.ts'

/** RFC 9112, section 3.2. Node.js would refuse it with an empty answer. */
const NO_HOST = 'cannot read the request: it has no header Host, which HTTP/1.1 needs; send it'

const refusedCoding = (coding: string) =>
  `cannot read the body: its Transfer-Encoding is ${JSON.stringify(coding.slice(0, 64))}; send chunked alone, and say by Content-Encoding how it is compressed`

export const arrival = fastifyPlugin<{ auth: Auth; guard: HostGuard }>(
  async (http, { auth, guard }) => {
    http.addHook('onRequest', (request, reply, done) => {
      reply.header('x-request-id', request.id)
      try {
        refuseDuplicates(request.raw.rawHeaders)
        const { host, origin, 'transfer-encoding': coding } = request.headers
        // Node.js takes every list that ends in chunked for chunked alone. A status of its own: RFC 9112, section 6.1.
        if (coding !== undefined && coding.toLowerCase() !== 'chunked')
          return void reply
            .code(501)
            .header('connection', 'close')
            .send(envelope(new SvcError('BAD_REQUEST', refusedCoding(coding))))
        if (host === undefined && request.raw.httpVersion === '1.1') throw new SvcError('BAD_REQUEST', NO_HOST)
        if (auth.open) guard.check({ host, origin })
        else if (origin !== undefined && clientCertificate(request.raw.socket) !== undefined) guard.checkOrigin({ host, origin })
        done()
      } catch (error) {
        done(error as Error)
      }
    })
  },
  { name: 'svc-arrival' },
)
