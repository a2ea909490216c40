/** How clients of InfluxDB and QuestDB are told why they are refused: each looks at another place. */
import type { FastifyReply } from 'fastify'
import { envelope, type HttpRequest, type Logger, sendError, toSvcError } from 'svcdb'
import type { SvcError } from 'svcdb/lib/errors'
import { INFLUX_VERSION } from 'svcdb/lib/version'

/** Options of routes, and what answers paths that no route has. */
export interface InfluxHooks {
  onSend(request: HttpRequest, reply: FastifyReply, payload: unknown): Promise<unknown>
  errorHandler(error: unknown, request: HttpRequest, reply: FastifyReply): void
}

export function influxHooks(log: Logger): InfluxHooks {
  return {
    async onSend(_request, reply, payload) {
      reply.header('x-influxdb-version', INFLUX_VERSION)
      // Set here, since fastify adds a charset to what is set before. Icinga reads no refusal that has one; JSON is UTF-8 without it (RFC 8259, section 8.1).
      if (reply.getHeader('content-type') === JSON_WITH_CHARSET) reply.header('content-type', 'application/json')
      return payload
    },
    errorHandler(error, request, reply) {
      const known = toSvcError(error)
      const body = told(known, request)
      // Headers hold printable ASCII only.
      const reason = body.error.slice(0, MAX_HEADER_TEXT).replace(/[^\x20-\x7e]/g, '?')
      // Some clients of InfluxDB 2 read the first, some of InfluxDB 1 the second alone.
      reply.headers({ 'x-influx-error': reason, 'x-influxdb-error': reason })
      sendError(known, request, reply, log, body)
    },
  }
}

interface Told {
  error: string
  code: string
  message?: string
}

/** The kernel's envelope; with `message`, which clients of InfluxDB 2 and of QuestDB read, where they come to. */
function told(known: SvcError, { url, headers }: HttpRequest): Told {
  const body = envelope(known) as unknown as Told
  if (!MESSAGE_PATHS.test(url)) return body
  const answer = { ...body, message: body.error }
  return INFLUX_CLI.test(headers['user-agent'] ?? '') ? { ...answer, code: influxCode(known.kind.http) } : answer
}

const influxCode = (status: number): string => INFLUX_CODES[status] ?? (status < 500 ? 'invalid' : 'unavailable')

const JSON_WITH_CHARSET = 'application/json; charset=utf-8'
/** Of InfluxDB 2, and where QuestDB's clients write. */
const MESSAGE_PATHS = /^\/(api\/v2\/|write(\?|$))/
/** InfluxDB 2's own program: of an answer whose `code` is none of InfluxDB's it shows that code, and not the reason. */
const INFLUX_CLI = /^influx\//
/** 413 is not among them: of a write that is too large it knows no code but "invalid". */
const INFLUX_CODES: Record<number, string> = {
  ...{ 401: 'unauthorized', 403: 'forbidden', 404: 'not found', 405: 'method not allowed', 409: 'conflict' },
  ...{ 415: 'unsupported media type', 422: 'unprocessable entity', 429: 'too many requests', 500: 'internal error' },
}
const MAX_HEADER_TEXT = 512
