/** For routes with `encodedBody`: what they make of a body is counted with it. */
import type { FastifyRequest } from 'fastify'
import { SMALLEST_COUNTED } from './body-memory.ts'

/**
 * Counts further bytes for a request's body, until it is answered and its handler has ended. Call it before they are taken where the length is known then.
 * @throws SvcError BACKPRESSURE when bodies have what `server.max_body_memory` allows; BAD_REQUEST when the connection is gone.
 */
export function holdBody(request: FastifyRequest, bytes: number): void {
  // Not taken apart in the signature: the declaration would name a member that only this repository declares.
  if (bytes >= SMALLEST_COUNTED) request.bodyHold?.take(bytes)
}
