/** Bodies of requests: bytes with a bound, and the JSON in them. */
import type { IncomingMessage } from 'node:http'
import type { BodyCount } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { checkJsonBounds, type JsonBounds, jsonProblem } from 'svcdb/lib/json'
import { BoundedBytes, decompress } from 'svcdb/lib/network'
import { type Problem, SchemaReader, type TSchema } from 'svcdb/lib/schema'
import { NoRoom, Refusal } from './refusal.ts'

const MAX_BODY_BYTES = 1 << 20
const JSON_TYPE = /^application\/json\s*(?:;|$)/i

const tooLarge = () => new Refusal(413, `the body has more than ${MAX_BODY_BYTES} bytes; send less`)

/** Counts what comes. @param owner whose it is. */
export type OpenHold = (owner: string, connection: IncomingMessage['socket']) => BodyCount

/** The body of one request: it is counted from its first bytes on until it is released. */
export class IncomingBody {
  private readonly request: IncomingMessage
  private readonly open: OpenHold
  private hold: BodyCount | undefined

  constructor(request: IncomingMessage, open: OpenHold) {
    this.request = request
    this.open = open
  }

  /** Once. @param owner whose it is. @throws NoRoom, and Refusal 413, 400 for one that ends too early or cannot be decompressed. */
  async read(owner: string): Promise<Buffer> {
    const { request } = this
    const hold = this.open(owner, request.socket)
    hold.begin()
    this.hold = hold
    return readBody(request, (bytes) => take(hold, bytes))
  }

  /** Nothing of it is needed any more. */
  release(): void {
    this.hold?.answered()
    this.hold?.end()
    this.hold = undefined
  }
}

/** Below this a body is not counted: its request takes about as much beside it. */
const SMALLEST_COUNTED = 8192

function take(hold: BodyCount, bytes: number): void {
  try {
    hold.take(bytes)
  } catch (error) {
    const { code, message } = error as SvcError
    throw code === 'BACKPRESSURE' ? new NoRoom(message) : new Refusal(400, message)
  }
}

/** @param counted called before more is kept, with how much. */
async function readBody(request: IncomingMessage, counted: (bytes: number) => void): Promise<Buffer> {
  if (Number(request.headers['content-length'] ?? 0) > MAX_BODY_BYTES) throw tooLarge()
  const bytes = await collect(request, counted)
  const encoding = (request.headers['content-encoding'] ?? 'identity').trim().toLowerCase()
  if (encoding === 'identity' || encoding === '') return bytes
  try {
    const all = await decompress(bytes, encoding, MAX_BODY_BYTES, { owner: request.socket })
    if (all.length >= SMALLEST_COUNTED) counted(all.length)
    return all
  } catch (error) {
    if (error instanceof Refusal) throw error
    if (error instanceof SvcError && error.code === 'PAYLOAD_TOO_LARGE') throw tooLarge()
    throw new Refusal(400, (error as Error).message)
  }
}

function collect(request: IncomingMessage, counted: (bytes: number) => void): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const body = new BoundedBytes(MAX_BODY_BYTES)
    let known = 0
    let isRefused = false
    /** Of small ones nothing is counted. @throws NoRoom, Refusal. */
    const count = (length: number): void => {
      if (length < SMALLEST_COUNTED) return
      counted(length - known)
      known = length
    }
    const cut = () => reject(new Refusal(400, 'the connection closed before the whole body had come'))
    request.on('data', (chunk: Buffer) => {
      if (isRefused) return
      try {
        if (body.length + chunk.length <= MAX_BODY_BYTES) count(body.length + chunk.length)
        if (!body.add(chunk)) throw tooLarge()
      } catch (error) {
        isRefused = true
        body.clear()
        reject(error)
      }
    })
    request.on('end', () => resolve(body.bytes))
    request.on('error', cut)
    request.on('close', cut)
  })
}

/** @throws Refusal 415. */
export function requireJson(contentType: string | undefined): void {
  if (contentType === undefined || !JSON_TYPE.test(contentType))
    throw new Refusal(415, `cannot read a body of Content-Type "${(contentType ?? '').slice(0, 128)}": send application/json`)
}

/** @throws Refusal 400 for what is no JSON in UTF-8, or too deep, or has too many members, or half of a surrogate pair: no policy and no record can have it. */
export function parseJson(bytes: Buffer, bounds: JsonBounds): unknown {
  let value: unknown
  try {
    checkJsonBounds(bytes, bounds)
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch (error) {
    throw new Refusal(400, error instanceof SvcError ? error.message : `the body is not JSON: ${jsonProblem(error as Error)}`)
  }
  if (!isWhole(value)) throw new Refusal(400, 'a text of the body has half of a surrogate pair, such as "\\ud83d" alone: write whole characters')
  return value
}

function isWhole(value: unknown): boolean {
  if (typeof value === 'string') return value.isWellFormed()
  if (typeof value !== 'object' || value === null) return true
  return Object.entries(value).every(([name, member]) => name.isWellFormed() && isWhole(member))
}

/** What is read. */
interface Place {
  /** query or body. */
  name: string
  /** Of a refusal. */
  status: number
  members: Readonly<Record<string, TSchema>> | undefined
}

/** Texts of a query are converted. @throws Refusal. */
export function shaped<T>(reader: SchemaReader, value: unknown, place: Place): T {
  const { value: read, problems } = reader.read(value, place.name === 'query')
  if (problems.length > 0) throw new Refusal(place.status, describe(place, problems[0]))
  return read as T
}

export function readerOf(schema: TSchema): SchemaReader {
  return new SchemaReader(schema)
}

function describe({ name, members = {} }: Place, { instancePath, keyword, message, params }: Problem): string {
  const where = `${name}${instancePath.replace(/\/(\d+)(?=\/|$)/g, '[$1]').replaceAll('/', '.')}`
  const known = Object.keys(members).join(', ')
  const { allowedValues, requiredProperties = [] } = params as { allowedValues?: unknown[]; requiredProperties?: string[] }
  if (keyword === 'enum' && allowedValues !== undefined) return `${where} is one of ${allowedValues.map(String).join(', ')}`
  // A member that is not in the schema is reported as one whose schema is `false`.
  if (keyword === 'boolean') return `${where} is not a known member; ${name} has ${known}`
  if (keyword === 'required') return `${where} lacks ${requiredProperties.map((one) => `\`${one}\``).join(', ')}: send it as well`
  if (keyword === 'type' && instancePath === '') return `${name} is to be a JSON object with ${known}`
  const { description } = (members[instancePath.split('/')[1]] ?? {}) as { description?: string }
  return `${where} ${message}${description === undefined ? '' : ` (${description})`}`
}
