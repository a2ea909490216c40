/** What a job emits, as the body of an answer. */
import { isAscii } from 'node:buffer'
import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { RunningJob } from '../storage/jobs.ts'

/**
 * Sends a job's output as it comes; the job ends with the client's connection, and what is left is not sent to who may ask no more.
 * @param begin called before the first bytes go out, to set headers: a failure before that still has a status of its own.
 */
export async function sendOutput<R>(request: FastifyRequest, reply: FastifyReply, job: RunningJob<R>, begin: () => void): Promise<void> {
  job.result.catch(() => {}) // the output fails with the same error
  const { socket } = request.raw
  socket.once('close', job.cancel)
  reply.raw.once('close', () => socket.off('close', job.cancel))
  const output = job.output[Symbol.asyncIterator]()
  const first = await output.next()
  const second = first.done === true ? first : await output.next()
  const stands = request.standing()
  let ahead = 0
  request.unsent = () => ahead + (job.waiting ?? 0)
  async function* chunks(one: Uint8Array, two: Uint8Array): AsyncGenerator<Uint8Array> {
    try {
      ahead = two.length
      yield one
      ahead = 0
      await stands?.()
      yield two
      for (let next = await output.next(); next.done !== true; next = await output.next()) {
        await stands?.()
        yield next.value
      }
    } finally {
      ahead = 0
      job.cancel()
      // What a job that has ended left is given up as well.
      await output.return?.()
    }
  }
  begin()
  // A reply is a promise of its own end: it must not be returned from here, or the caller would wait for that.
  if (first.done === true) reply.send('')
  else if (second.done === true) sendOnce(reply, first.value)
  else reply.send(Readable.from(chunks(first.value, second.value), { objectMode: false }))
}

/** With its head a text of so many characters is written to the socket from the stack, in one call. */
const SMALL_BYTES = 12 * 1024

/** Sends one buffer and frees it at once: answers of a megabyte would otherwise pile up until the next garbage collection. */
function sendOnce(reply: FastifyReply, bytes: Uint8Array): void {
  if (bytes.length <= SMALL_BYTES && isAscii(bytes)) return void reply.send(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1'))
  reply.raw.once('finish', () => (bytes.buffer as ArrayBuffer).transfer(0))
  reply.send(bytes)
}
