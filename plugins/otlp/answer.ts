/**
 * How a write is answered: the messages ExportMetricsServiceResponse and google.rpc.Status, in the encoding of the request. Pure.
 *
 * Exporters repeat a request only for 429, 502, 503 and 504, and drop it for every other error. So what may be sent again is answered with
 * one of these: a full disk, which is 507 at other protocols, and the server's own faults, which are 500 there, are 503 here.
 */
import { partialWrite, type Refused } from 'svcdb'
import { type ErrorKind, publicText, type SvcError } from 'svcdb/lib/errors'
import { ProtobufWriter } from 'svcdb/lib/protobuf'
import type { Encoding } from './content.ts'

/** Seconds for Retry-After where the error names none. */
const RETRY_AFTER = 5
const MAX_MESSAGE = 4096

export interface Tally extends Refused {
  /** Data points that were stored, or skipped as the mapping says. */
  written: number
  /** The metrics of the request, each with the place of its first point. */
  metrics: readonly { position: number; name: string }[]
}

/** @returns undefined when nothing was rejected. */
export function refusalOf(tally: Tally): SvcError | undefined {
  if (tally.rejected === 0) return undefined
  const rejections = [...tally.rejections].sort((a, b) => a.position - b.position)
  return partialWrite({ ...tally, rejections }, { place: (position) => placeOf(position, tally.metrics), counted, senderRepeats: true })
}

function placeOf(position: number, metrics: Tally['metrics']): string {
  const metric = metrics.findLast((each) => each.position <= position)
  return metric === undefined ? `data point ${position}` : `data point ${position}, of metric "${metric.name}"`
}

/** The answer to a request of which some data points were stored. */
export function partialSuccess(encoding: Encoding, rejected: number, message: string): string | Buffer {
  const text = message.slice(0, MAX_MESSAGE)
  // 64-bit integers are strings in JSON.
  if (encoding === 'json') return JSON.stringify({ partialSuccess: { rejectedDataPoints: String(rejected), errorMessage: text } })
  const out = new ProtobufWriter(text.length * 3 + 64)
  const partial = out.open(1)
  out.int(1, rejected)
  out.string(2, text)
  out.close(partial)
  return Buffer.from(out.take())
}

interface ErrorAnswer {
  status: number
  /** Seconds. */
  retryAfter: number | undefined
}

export function errorAnswer(error: SvcError): ErrorAnswer {
  const { http, retryAfter }: ErrorKind = error.kind
  const status = http === 500 || http === 507 ? 503 : http
  const repeatable = status === 429 || status >= 502
  const wanted = error.headers?.['retry-after']
  return { status, retryAfter: repeatable ? (wanted === undefined ? (retryAfter ?? RETRY_AFTER) : Number(wanted)) : undefined }
}

/** google.rpc.Status; the message begins with the error's code, which is also what its ErrorInfo says. */
export function statusMessage(encoding: Encoding, error: SvcError): string | Buffer {
  const { code, kind } = error
  const shown = publicText(error)
  const text = (shown.startsWith(`${code}: `) ? shown : `${code}: ${shown}`).slice(0, MAX_MESSAGE)
  const { retryAfter } = errorAnswer(error)
  if (encoding === 'json') {
    const details: object[] = [{ '@type': INFO_TYPE, reason: code, domain: DOMAIN }]
    if (retryAfter !== undefined) details.push({ '@type': RETRY_TYPE, retryDelay: `${retryAfter}s` })
    return JSON.stringify({ code: kind.grpc, message: text, details })
  }
  const out = new ProtobufWriter(text.length * 3 + 256)
  out.int(1, kind.grpc)
  out.string(2, text)
  detail(out, INFO_TYPE, () => {
    out.string(1, code)
    out.string(2, DOMAIN)
  })
  if (retryAfter !== undefined)
    detail(out, RETRY_TYPE, () => {
      const delay = out.open(1)
      out.int(1, retryAfter)
      out.close(delay)
    })
  return Buffer.from(out.take())
}

const INFO_TYPE = 'type.googleapis.com/google.rpc.ErrorInfo'
const RETRY_TYPE = 'type.googleapis.com/google.rpc.RetryInfo'
const DOMAIN = 'svc'

/** One google.protobuf.Any in Status.details. */
function detail(out: ProtobufWriter, type: string, write: () => void): void {
  const any = out.open(3)
  out.string(1, type)
  const value = out.open(2)
  write()
  out.close(value)
  out.close(any)
}

function counted(points: number): string {
  return points === 1 ? '1 data point' : `${points} data points`
}
