/** One upstream node: a request to it, and what its answers mean. */
import { readFile } from 'node:fs/promises'
import type { ErrorCode } from 'svcdb/lib/errors'
import { ProtobufReader, ProtobufWriter, readText } from 'svcdb/lib/protobuf'
import { currentSpan, traceHeaders } from 'svcdb/lib/trace'
import type { ForwardConfig, UpstreamConfig } from './config.ts'
import { CallError, GrpcClient, shortText } from './grpc-client.ts'
import { countOf, type RequestHead, type Rows, writeRequest } from './points.ts'

const WRITE = '/svc.Service/Write'
/** What a header can carry. */
const KEY = /^[\x21-\x7e]+$/

export interface RefusedRow {
  /** Of the rows that were sent. */
  position: number
  code: string
  message: string
}

export interface Outcome {
  written: number
  rejected: number
  /** Ascending, without gaps: all that were refused up to the last of them. */
  refused: RefusedRow[]
  /** Bytes of the request as it was sent. */
  bytes: number
}

/**
 * What a failed request asks for. `wait`: the same again, later. `mend`: the same, but somebody has to change a configuration first. `divide`: something in it is
 * wrong or too much, and it has to be found out what. `broken`: the other side fails, over these points or over any; the same again, but not for ever.
 */
export type Verdict = 'wait' | 'mend' | 'divide' | 'broken'

const CANCELLED = 1
const INVALID_ARGUMENT = 3
const DEADLINE_EXCEEDED = 4
const NOT_FOUND = 5
const PERMISSION_DENIED = 7
const RESOURCE_EXHAUSTED = 8
const FAILED_PRECONDITION = 9
const ABORTED = 10
const OUT_OF_RANGE = 11
const UNIMPLEMENTED = 12
const UNAVAILABLE = 14
const UNAUTHENTICATED = 16
/** RESOURCE_EXHAUSTED that time does not mend. */
const TOO_MUCH: ReadonlySet<ErrorCode | undefined> = new Set(['PAYLOAD_TOO_LARGE', 'CARDINALITY_EXCEEDED'])
/** Faults of the server that no point has made. */
const OF_THE_SERVER: ReadonlySet<ErrorCode | undefined> = new Set(['DATABASE_ERROR', 'IO_ERROR', 'CONFIG_ERROR', 'TLS_ERROR'])
/** gRPC's INVALID_ARGUMENT of a server that says no word of the points. */
const OF_THE_CALL: ReadonlySet<ErrorCode | undefined> = new Set(['METHOD_NOT_ALLOWED', 'UNSUPPORTED_MEDIA_TYPE'])

export function verdictOf({ status, code }: CallError): Verdict {
  switch (status) {
    case undefined:
    case CANCELLED:
    case DEADLINE_EXCEEDED:
    case ABORTED:
    case UNAVAILABLE:
      return 'wait'
    case RESOURCE_EXHAUSTED:
      return TOO_MUCH.has(code) ? 'divide' : 'wait'
    case UNAUTHENTICATED:
    case PERMISSION_DENIED:
    case UNIMPLEMENTED:
    // A namespace that is not there, a key for the data at rest that the server does not get at.
    case NOT_FOUND:
    case FAILED_PRECONDITION:
      return 'mend'
    case INVALID_ARGUMENT:
    case OUT_OF_RANGE:
      return OF_THE_CALL.has(code) ? 'mend' : 'divide'
    default:
      return OF_THE_SERVER.has(code) ? 'wait' : 'broken'
  }
}

/**
 * Refusals that say something of the namespace of a request alone, by the code of svc: points of others may go on. A status without a code is of something between
 * here and there, and all other codes are of the upstream as a whole, of this node, or of the points.
 */
const OF_THE_NAMESPACE: ReadonlySet<ErrorCode | undefined> = new Set<ErrorCode>([
  'NOT_FOUND', // there is none of its name, or it is being deleted
  'FORBIDDEN', // the key is for others, or a policy is against it
  'RATE_LIMITED', // its quota of points a second or of bytes is used up, or there are as many namespaces as there may be
])

/** Whether a request that is to wait need not keep those of other namespaces waiting. */
export const concernsNamespace = ({ code }: CallError): boolean => OF_THE_NAMESPACE.has(code)

export class Upstream {
  readonly name: string
  readonly url: string
  up = false
  lastError: string | undefined
  private readonly config: UpstreamConfig
  private readonly client: GrpcClient
  private readonly writer = new ProtobufWriter(1 << 16)

  constructor(config: UpstreamConfig, { compression, timeout_secs }: ForwardConfig) {
    this.config = config
    this.name = config.name
    this.url = config.url
    const tls = async () => {
      const read = (path: string | undefined) => (path === undefined ? undefined : readFile(path))
      const [ca, cert, key] = await Promise.all([read(config.ca_cert), read(config.client_cert), read(config.client_key)])
      return { ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) }
    }
    this.client = new GrpcClient({ url: config.url, tls, compression, timeoutMs: timeout_secs * 1000 })
  }

  get connections(): number {
    return this.client.connections
  }

  /** Sent, whatever became of it. */
  get bytes(): number {
    return this.client.bytes
  }

  /** @throws CallError. */
  async write(rows: Rows, namespace: string, head: RequestHead, signal: AbortSignal): Promise<Outcome> {
    const message = writeRequest(this.writer, rows, head)
    const metadata: Record<string, string> = namespace === '' ? {} : { 'x-namespace': namespace }
    const key = await this.key()
    if (key !== undefined) metadata.authorization = `Bearer ${key}`
    Object.assign(metadata, traceHeaders(currentSpan()))
    const { body, sent } = await this.client.call(WRITE, message, metadata, signal)
    try {
      return { ...outcomeOf(body, countOf(rows)), bytes: sent }
    } catch (error) {
      throw new CallError(`cannot read the answer from ${this.url}: ${(error as Error).message}`, { cause: error })
    }
  }

  /** Makes the connection, if there is none. @throws CallError. */
  reach(): Promise<void> {
    return this.client.reach()
  }

  close(): Promise<void> {
    return this.client.close()
  }

  private async key(): Promise<string | undefined> {
    const { api_key, api_key_file } = this.config
    if (api_key_file === undefined) return api_key?.reveal()
    let text: string
    try {
      text = (await readFile(api_key_file, 'utf8')).trim()
    } catch (error) {
      throw new CallError(`cannot read api_key_file "${api_key_file}": ${(error as Error).message}`, { status: UNAUTHENTICATED, cause: error })
    }
    if (KEY.test(text)) return text
    throw new CallError(`cannot use api_key_file "${api_key_file}": it has to hold one key in printable ASCII, and nothing else`, { status: UNAUTHENTICATED })
  }
}

const reader = new ProtobufReader()

/** @param count rows that were sent. @throws Error for an answer that does not account for each of them: whoever it is of, it may have none. */
function outcomeOf(body: Uint8Array, count: number): Omit<Outcome, 'bytes'> {
  const outcome: Omit<Outcome, 'bytes'> = { written: 0, rejected: 0, refused: [] }
  let duplicate = false
  try {
    reader.begin(body)
    while (reader.next()) {
      const field: number = reader.field
      if (field === 3) {
        const refused: RefusedRow = { position: 0, code: '', message: '' }
        const outer = reader.enter()
        while (reader.next()) {
          const member: number = reader.field
          if (member === 1) {
            reader.int64()
            refused.position = reader.unsigned
          } else if (member === 2) refused.code = shortText(readText(reader, 'code'))
          else if (member === 3) refused.message = shortText(readText(reader, 'message'))
          else reader.skip()
        }
        reader.leave(outer)
        outcome.refused.push(refused)
      } else if (field <= 2) {
        reader.int64()
        outcome[field === 1 ? 'written' : 'rejected'] = reader.unsigned
      } else if (field === 4) {
        reader.int64()
        duplicate = reader.unsigned !== 0
      } else reader.skip()
    }
  } finally {
    reader.release()
  }
  const { written, rejected, refused } = outcome
  if (!duplicate && written + rejected !== count)
    throw new Error(`${written} points are said to be written and ${rejected} not, of ${count} that were sent; see that it is the plugin grpc of a node`)
  if (refused.length > rejected || refused.some(({ position }, i) => position >= count || (i > 0 && position <= refused[i - 1].position)))
    throw new Error('it lists refused points that were not sent, or in no order; see that it is the plugin grpc of a node')
  return outcome
}
