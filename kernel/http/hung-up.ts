/** For work on a request that goes on for many turns of the event loop: whether anybody waits for it still. */
import type { FastifyRequest } from 'fastify'
import { SvcError } from '../lib/errors/index.ts'

/** @returns asks why the work should end, undefined = it should not. Once the connection is gone the request's body may be in use by another. */
export function hungUp({ raw }: FastifyRequest): () => Error | undefined {
  const { socket } = raw
  return () => (socket.destroyed ? new SvcError('BAD_REQUEST', 'the connection was closed before the body was read') : undefined)
}
