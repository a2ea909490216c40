import type { FastifyReply } from 'fastify'

/** Names one more header of the request that the answer depends on. */
export function vary(reply: FastifyReply, header: string): void {
  const before = reply.getHeader('vary')
  reply.header('vary', before === undefined ? header : `${before}, ${header}`)
}
