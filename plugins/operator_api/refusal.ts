/** What a caller is told instead of an answer: a status, and a sentence. */
import { type ErrorCode, publicText, SvcError } from 'svcdb/lib/errors'

/** By status: what the audit log says of an operation that has failed. */
const CODES: Readonly<Record<number, ErrorCode>> = {
  400: 'BAD_REQUEST',
  401: 'UNAUTHORIZED',
  403: 'FORBIDDEN',
  404: 'NOT_FOUND',
  413: 'PAYLOAD_TOO_LARGE',
  415: 'UNSUPPORTED_MEDIA_TYPE',
  422: 'INVALID_BODY',
  503: 'BACKPRESSURE',
}

/** Of any status, such as 501, which the errors of the server have no code for. */
export class Refusal extends SvcError {
  readonly status: number

  constructor(status: number, sentence: string) {
    super(CODES[status] ?? 'INTERNAL_ERROR', sentence)
    this.status = status
  }
}

/** Of whatever operation: bodies have all the memory that they may, and it is to be sent again later. */
export class NoRoom extends Refusal {
  constructor(sentence: string) {
    super(503, sentence)
  }
}

interface Refused {
  status: number
  sentence: string
  /** The server's own fault: the log has why. */
  fault?: unknown
  retryAfter?: number
}

/** What an operation fails with is one of the statuses that its description lists; whatever else it is, the plane failed. */
export function refusedBy(error: unknown, statuses: ReadonlySet<number>): Refused {
  if (error instanceof NoRoom) return { status: error.status, sentence: error.message, retryAfter: 1 }
  if (error instanceof Refusal && statuses.has(error.status))
    return { status: error.status, sentence: error.message, ...(error.status === 503 ? { retryAfter: 1 } : {}) }
  if (error instanceof SvcError) {
    const { http, redact } = error.kind
    if (statuses.has(http) && redact !== true && http < 500) return { status: http, sentence: publicText(error) }
  }
  if (statuses.has(503))
    return { status: 503, sentence: 'the store of the plane is unavailable; retry with the same id: what was kept is known', fault: error, retryAfter: 1 }
  return { status: 500, sentence: 'the store of the plane is unavailable, or the plane failed; the log of the server has why', fault: error }
}
