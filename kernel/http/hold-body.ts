/** For routes with `encodedBody`: what they make of a body is counted with it. */
import type { FastifyRequest } from 'fastify'
import { SMALLEST_COUNTED } from './body-memory.ts'

/**
 * Counts further bytes for a request's body, until it is answered and its handler has ended. Call it before they are taken where the length is known then.
 * @throws SvcError BACKPRESSURE when bodies have what `server.max_body_memory` allows; BAD_REQUEST when the connection is gone.
 */
export function holdBody({ bodyHold }: FastifyRequest, bytes: number): void {
  if (bytes >= SMALLEST_COUNTED) bodyHold?.take(bytes)
}
