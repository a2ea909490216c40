/** One attempt: a POST on a connection of its own, whose answer is judged by its head. */
import type { ClientRequest, IncomingMessage } from 'node:http'
import { createSecureContext } from 'node:tls'
import { Forbidden, sendGuarded } from 'svcdb/lib/egress'
import type { Guard } from './guard.ts'
import { type Attempt, judge } from './retry.ts'

// Importing node:http asks for all it exports: among them WebSocket, which loads all of fetch (30 ms, 14 MiB).
const { request: httpRequest } = process.getBuiltinModule('node:http')
const { request: httpsRequest } = process.getBuiltinModule('node:https')

/** An answer's body is let run out so far, for servers that stop at once when a client hangs up; nothing of it is kept. */
const MAX_BODY_BYTES = 65_536
const BODY_MS = 1000
const MAX_HEAD_BYTES = 16_384

interface PostOptions {
  guard: Guard
  timeoutMs: number
  /** PEM of all authorities that are trusted; undefined = those of Node.js. */
  authorities: readonly string[] | undefined
  userAgent: string
  now(): number
}

export type Post = (url: string, headers: Record<string, string>, body: string, signal: AbortSignal) => Promise<Attempt>

export function poster({ guard, timeoutMs, authorities, userAgent, now }: PostOptions): Post {
  // Once: to read a hundred certificates for each connection takes longer than all the rest.
  const secure: object = { secureContext: createSecureContext(authorities === undefined ? {} : { ca: [...authorities] }) }
  return async (text, headers, body, signal) => {
    const timeout = AbortSignal.timeout(timeoutMs)
    try {
      const url = guard.parse(text)
      const bytes = Buffer.from(body)
      const request = (url.protocol === 'https:' ? httpsRequest : httpRequest)(url, {
        method: 'POST',
        agent: false,
        lookup: guard.lookup,
        maxHeaderSize: MAX_HEAD_BYTES,
        signal: AbortSignal.any([timeout, signal]),
        headers: { ...headers, 'content-length': String(bytes.length), 'user-agent': userAgent, accept: '*/*', connection: 'close' },
        ...secure,
      })
      const answer = await sendGuarded(request, bytes, guard)
      const attempt = judge(answer.statusCode as number, answer.headers['retry-after'], now())
      await runOut(answer, request)
      return attempt
    } catch (error) {
      if (timeout.aborted) return failed('timeout', `there was no answer within ${timeoutMs / 1000} s`)
      if (signal.aborted) return failed('aborted', 'the attempt was broken off, as the server stops')
      return failure(error)
    }
  }
}

async function runOut(answer: IncomingMessage, request: ClientRequest): Promise<void> {
  let size = 0
  await new Promise<void>((resolve) => {
    const enough = setTimeout(resolve, BODY_MS)
    const end = () => {
      clearTimeout(enough)
      resolve()
    }
    answer.on('data', (chunk: Buffer) => {
      size += chunk.length
      if (size > MAX_BODY_BYTES) end()
    })
    answer.on('error', end)
    answer.on('close', end)
    answer.on('end', end)
  })
  answer.destroy()
  request.destroy()
}

const failed = (kind: string, reason: string): Attempt => ({ result: 'failed', kind, reason })

function failure(error: unknown): Attempt {
  let at = error
  while (at instanceof AggregateError && at.errors.length > 0) at = at.errors[0]
  if (at instanceof Forbidden) return failed('refused', at.message)
  const { code = '', message } = at as NodeJS.ErrnoException
  const tls = /^ERR_TLS|^ERR_SSL|CERT|SELF_SIGNED|UNABLE_TO_/.test(code)
  return failed(tls ? 'tls' : 'connection', (message || code).split('\n', 1)[0].slice(0, 200))
}
