/** A bucket as an object store, over HTTP. The only file that knows aws4fetch, which signs requests (Signature Version 4) and repeats what the store refused for now. */
import { createWriteStream, openAsBlob } from 'node:fs'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { ReadableStream } from 'node:stream/web'
import { AwsClient } from 'aws4fetch'
import type { ObjectStore } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import type { Bucket } from './remote.ts'
import { tooLarge } from './too-large.ts'

/** Answers 429 and 5xx are repeated so often, with growing pauses from this on. */
const RETRIES = 4
const FIRST_PAUSE_MS = 100
/** An error's answer is XML; more than this of it is not looked at. */
const ERROR_TEXT = 4096
/** S3 tells who may not list a bucket neither that an object is there nor that it is not: taken for gone, another's archive would be taken for nobody's. */
const MISSING = '; where the object is not there, S3 says so only to credentials with s3:ListBucket on the bucket'
/** What a refusal may mean beside what it says, by method. */
const HINTS: Readonly<Record<string, string>> = {
  GET: `${MISSING}: give them that and s3:GetObject`,
  HEAD: `${MISSING}: give them that and s3:GetObject`,
  PUT: '; give the credentials s3:PutObject',
  DELETE: '; give the credentials s3:DeleteObject',
}

/** The object is there, or somebody else is about to create it. */
const EXISTS = new Set([409, 412])
/** How stores answer that know no conditions: some name the header as an argument that they do not take. */
const UNCONDITIONAL = new Set(['NotImplemented', 'InvalidArgument'])

class Refused extends SvcError {
  readonly status: number
  /** As the store names it, such as NoSuchBucket. */
  readonly reason: string

  constructor(status: number, reason: string, message: string) {
    super(status === 404 ? 'NOT_FOUND' : 'OVERLOADED', message)
    this.status = status
    this.reason = reason
  }
}

export class S3Store implements ObjectStore {
  readonly name: string
  private readonly remote: Bucket
  private readonly timeoutMs: number
  private readonly client: AwsClient
  private readonly closing = new AbortController()

  constructor(remote: Bucket, timeoutMs: number) {
    const { bucket, prefix, region, accessKeyId, secretAccessKey, sessionToken } = remote
    this.remote = remote
    this.timeoutMs = timeoutMs
    this.name = `bucket "${[bucket, prefix].filter((part) => part !== '').join('/')}"`
    this.client = new AwsClient({
      accessKeyId,
      secretAccessKey,
      ...(sessionToken === undefined ? {} : { sessionToken }),
      service: 's3',
      region,
      retries: RETRIES,
      initRetryMs: FIRST_PAUSE_MS,
    })
  }

  async put(key: string, path: string): Promise<void> {
    // A blob over a file is read as it is sent, and its length is known.
    const body = await openAsBlob(path)
    const answer = await this.request('write', 'PUT', key, this.limit(), body)
    await answer.body?.cancel()
  }

  async create(key: string, path: string): Promise<boolean> {
    try {
      const answer = await this.request('write', 'PUT', key, this.limit(), await openAsBlob(path), { 'if-none-match': '*' })
      await answer.body?.cancel()
      return true
    } catch (error) {
      if (error instanceof Refused && EXISTS.has(error.status)) return false
      if (!(error instanceof Refused && (error.status === 501 || UNCONDITIONAL.has(error.reason)))) throw error
      await this.put(key, path)
      return true
    }
  }

  async get(key: string, path: string, maxBytes = Number.POSITIVE_INFINITY): Promise<void> {
    const signal = this.limit()
    const answer = await this.request('read', 'GET', key, signal)
    const { name } = this
    const bounded = async function* (body: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
      let bytes = 0
      for await (const part of body) {
        bytes += part.length
        if (bytes > maxBytes) throw tooLarge(key, name, maxBytes)
        yield part
      }
    }
    try {
      await pipeline(Readable.fromWeb(answer.body as ReadableStream), bounded, createWriteStream(path, { flags: 'wx' }), { signal })
    } catch (error) {
      if (error instanceof SvcError) throw error
      throw this.failure('read', key, reasonOf(signal, error))
    }
  }

  async size(key: string): Promise<number | undefined> {
    try {
      const answer = await this.request('look at', 'HEAD', key, this.limit())
      return Number(answer.headers.get('content-length'))
    } catch (error) {
      if (error instanceof SvcError && error.code === 'NOT_FOUND') return undefined
      throw error
    }
  }

  async remove(key: string): Promise<void> {
    try {
      const signal = this.limit()
      const answer = await this.request('remove', 'DELETE', key, signal)
      // Some stores begin an answer before they know how it ends: a success is empty.
      const text = await beginOf(answer, signal)
      if (text.includes('<Error>')) throw this.refused('remove', key, answer, text)
    } catch (error) {
      if (!(error instanceof SvcError && error.code === 'NOT_FOUND')) throw error
    }
  }

  /** Ends requests under way. */
  close(): void {
    this.closing.abort(new Error('the server is stopping'))
  }

  /** Ends one request, the transfer of its object included. */
  private limit(): AbortSignal {
    return AbortSignal.any([this.closing.signal, AbortSignal.timeout(this.timeoutMs)])
  }

  private async request(verb: string, method: string, key: string, signal: AbortSignal, body?: Blob, headers: Record<string, string> = {}): Promise<Response> {
    const path = [this.remote.prefix, key].filter((part) => part !== '').join('/')
    const url = `${this.remote.url}/${path.split('/').map(encodeURIComponent).join('/')}`
    // Followed, a redirect has the object and the session token go to another server, unsigned, and whatever that answers taken for the bucket's.
    const fetched = this.client.fetch(url, { method, signal, headers, redirect: 'manual', ...(body === undefined ? {} : { body }) })
    const answer = await unlessAborted(fetched, signal).catch((error: unknown) => {
      throw this.failure(verb, key, reasonOf(signal, error))
    })
    if (answer.ok) return answer
    throw this.refused(verb, key, answer, await beginOf(answer, signal), HINTS[method])
  }

  /** @param text what the answer begins with. */
  private refused(verb: string, key: string, { status, headers }: Response, text: string, hint = ''): SvcError {
    const [reason, message] = ['Code', 'Message'].map((name) => new RegExp(`<${name}>([^<]*)</${name}>`).exec(text)?.[1] ?? '')
    const why = [`status ${status}`, reason, message].filter((part) => part !== '').join(', ')
    const more = status === 403 ? hint : status >= 300 && status < 400 ? redirected(headers.get('location')) : ''
    return new Refused(status, reason, `cannot ${verb} object "${key}" in ${this.name}: ${why}${more}`)
  }

  private failure(verb: string, key: string, error: unknown): SvcError {
    const { message, cause } = error as Error
    // fetch says no more than "fetch failed" itself.
    const why = cause instanceof Error ? `${message} (${cause.message || (cause as NodeJS.ErrnoException).code})` : message
    return new SvcError('OVERLOADED', `cannot ${verb} object "${key}" in ${this.name}: ${why}`, { cause: error })
  }
}

function redirected(location: string | null): string {
  const to = location === null ? '' : ` to "${location.slice(0, 200)}"`
  return `, a redirect${to}, and redirects are not followed; check the bucket's region and endpoint in [cold_archive]`
}

const reasonOf = (signal: AbortSignal, error: unknown): unknown => (signal.aborted ? signal.reason : error)

/** fetch alone forgets its signal with the next garbage collection: what listens to a signal here keeps it. */
async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>()
  const stop = (): void => reject(signal.reason)
  signal.addEventListener('abort', stop)
  if (signal.aborted) stop()
  try {
    return await Promise.race([work, promise])
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

/** The first part of an answer, as far as it comes; the rest is not waited for. */
async function beginOf(answer: Response, signal: AbortSignal): Promise<string> {
  if (answer.body === null) return ''
  const stream = Readable.fromWeb(answer.body as ReadableStream)
  const parts: Buffer[] = []
  let bytes = 0
  try {
    await pipeline(
      stream,
      async (source) => {
        for await (const part of source as AsyncIterable<Buffer>) {
          parts.push(part)
          bytes += part.length
          if (bytes >= ERROR_TEXT) return
        }
      },
      { signal },
    )
  } catch {
    // The status says what matters.
  } finally {
    stream.destroy()
  }
  return Buffer.concat(parts).toString('utf8', 0, ERROR_TEXT)
}
