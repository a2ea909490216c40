/** When to try again, and what answers mean. */

/** What one attempt came to. */
export interface Attempt {
  result: 'delivered' | 'gone' | 'failed'
  /** For the metrics: `2xx` ... `5xx`, `timeout`, `refused` (the address is not allowed), `tls`, `connection`. */
  kind: string
  /** In one line, for whoever operates the server. */
  reason: string
  /** Milliseconds that the endpoint asks for. */
  retryAfterMs?: number
  /** Of its answer. */
  status?: number
}

export interface RetryLimits {
  initialMs: number
  maxMs: number
  retryAfterMaxMs: number
}

/** @param failures in a row, 1 or more. @param random from 0 to 1. @returns milliseconds: the full pause, or down to half of it. */
export function pauseAfter(failures: number, { initialMs, maxMs, retryAfterMaxMs }: RetryLimits, random: number, retryAfterMs = 0): number {
  const full = Math.min(maxMs, initialMs * 2 ** Math.min(failures - 1, 40))
  return Math.max(full * (1 - random / 2), Math.min(retryAfterMs, retryAfterMaxMs))
}

/** Standard Webhooks: 2xx is success, 410 means stop, all else is to be tried again: a receiver whose key or route is not there yet answers 4xx. */
export function judge(status: number, retryAfter: string | undefined, now: number): Attempt {
  const kind = `${Math.floor(status / 100)}xx`
  if (kind === '2xx') return { result: 'delivered', kind, reason: '' }
  if (status === 410) return { result: 'gone', kind, reason: 'it answered 410 Gone' }
  const reason = kind === '3xx' ? `it answered ${status}, and redirects are not followed` : `it answered ${status}`
  const retryAfterMs = retryAfter === undefined ? undefined : parseRetryAfter(retryAfter, now)
  return { result: 'failed', kind, reason, status, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) }
}

/** RFC 9110, 10.2.3: seconds or a date. @returns milliseconds from now, 0 or more; undefined for anything else. */
function parseRetryAfter(text: string, now: number): number | undefined {
  const value = text.trim()
  if (/^\d+$/.test(value)) return Number(value) * 1000
  // Only what begins with the name of a day, as all three forms of dates do: Date.parse takes much else.
  const at = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)/.test(value) ? Date.parse(value) : Number.NaN
  return Number.isNaN(at) ? undefined : Math.max(0, at - now)
}
