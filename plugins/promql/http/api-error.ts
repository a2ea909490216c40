/** Failures in the shape of the Prometheus API: `{status, errorType, error}`, with the status of the type. */
import { type ErrorCode, publicText, SvcError } from 'svcdb/lib/errors'

type ErrorType =
  | 'bad_data'
  | 'execution'
  | 'timeout'
  | 'canceled'
  | 'unavailable'
  | 'internal'
  | 'not_found'
  | 'unauthorized'
  | 'forbidden'
  | 'too_many_requests'

const STATUS: Record<ErrorType, number> = {
  bad_data: 400,
  not_found: 404,
  execution: 422,
  canceled: 503,
  timeout: 503,
  unavailable: 503,
  internal: 500,
  unauthorized: 401,
  forbidden: 403,
  too_many_requests: 429,
}

/** The body's size and type, and the method, are told apart by their own status. */
const OWN_STATUS: ReadonlySet<string> = new Set(['PAYLOAD_TOO_LARGE', 'UNSUPPORTED_MEDIA_TYPE', 'METHOD_NOT_ALLOWED'] satisfies ErrorCode[])

const DETAIL = 'errorType'

/**
 * The caller's fault: text and type travel through the storage's threads as a SvcError.
 * @param type bad_data for what cannot be asked, execution for what cannot be answered.
 */
export function apiError(type: ErrorType, message: string, cause?: unknown): SvcError {
  return new SvcError('PROMQL_ERROR', message, { detail: { [DETAIL]: type }, ...(cause === undefined ? {} : { cause }) })
}

export function invalidParameter(name: string, reason: string): SvcError {
  return apiError('bad_data', `invalid parameter ${JSON.stringify(name)}: ${reason}`)
}

interface ErrorAnswer {
  status: number
  type: ErrorType
  text: string
  retryAfter?: number
}

export function answerOf(error: SvcError): ErrorAnswer {
  const kind = error.kind as { http: number; retryAfter?: number }
  const type = typeOf(error)
  return {
    type,
    text: publicText(error),
    status: OWN_STATUS.has(error.code) ? kind.http : STATUS[type],
    ...(kind.retryAfter === undefined ? {} : { retryAfter: kind.retryAfter }),
  }
}

function typeOf(error: SvcError): ErrorType {
  const named = error.detail?.[DETAIL]
  if (typeof named === 'string' && named in STATUS) return named as ErrorType
  switch (error.code) {
    case 'QUERY_TIMEOUT':
    case 'WRITE_TIMEOUT':
      return 'timeout'
    case 'OVERLOADED':
    case 'BACKPRESSURE':
    case 'DATABASE_CLOSED':
    case 'STORAGE_FULL':
      return 'unavailable'
    case 'NOT_FOUND':
      return 'not_found'
    case 'UNAUTHORIZED':
      return 'unauthorized'
    case 'FORBIDDEN':
      return 'forbidden'
    case 'RATE_LIMITED':
      return 'too_many_requests'
    default:
      return error.kind.http < 500 ? 'bad_data' : 'internal'
  }
}
