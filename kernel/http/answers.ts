/** Counts answers while their clients take them. */
import { finished, Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { type AnswerMemory, type HeldAnswer, SMALLEST_ANSWER } from './answer-memory.ts'
import { cutConnection, endsWithConnection } from './cut.ts'

export const answers = fastifyPlugin<{ memory: AnswerMemory }>(
  async (http, { memory }) => {
    http.decorateRequest('unsent', null)
    http.decorateRequest('heldAnswer', null)
    http.addHook('onSend', (request, reply, payload, done) => {
      if (payload instanceof Readable || ((typeof payload === 'string' || payload instanceof Uint8Array) && payload.length >= SMALLEST_ANSWER)) {
        if (request.heldAnswer !== null) memory.remove(request.heldAnswer)
        request.heldAnswer = heldAnswer(request, reply, payload instanceof Readable ? payload : undefined)
        memory.add(request.heldAnswer)
      }
      // Before fastify ends the connection in order.
      if (payload instanceof Readable && endsWithConnection(request.raw))
        finished(payload, { writable: false }, (error) => error && reply.raw.headersSent && cutConnection(request.raw))
      done(null, payload)
    })
    http.addHook('onResponse', (request, _reply, done) => {
      if (request.heldAnswer !== null) memory.remove(request.heldAnswer)
      done()
    })
  },
  { name: 'svc-answers' },
)

function heldAnswer(request: FastifyRequest, { raw }: FastifyReply, stream: Readable | undefined): HeldAnswer {
  const { socket } = request.raw
  return {
    namespace: request.svcContext?.dataNamespace ?? '',
    bytes: () => raw.writableLength + (stream?.readableLength ?? 0) + (request.unsent?.() ?? 0),
    sent: () => socket.bytesWritten - socket.writableLength,
    over: () => raw.writableFinished || socket.destroyed,
    cut: () => {
      stream?.destroy()
      cutConnection(request.raw)
    },
  }
}
