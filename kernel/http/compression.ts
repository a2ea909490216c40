/**
 * Compresses answers for clients that accept it: text and JSON, above a size, in zlib's threads. A streamed answer stays a stream. Tiny
 * answers, what is compressed already (Parquet, remote read) and clients that do not ask cost a look at two headers.
 * docs/decisions/033-what-clients-send-and-expect.md says why this is no library.
 */
import { pipeline, Readable, type Transform } from 'node:stream'
import { constants, createGzip, createZstdCompress, gzip, zstdCompress } from 'node:zlib'
import type { FastifyReply, FastifyRequest } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { vary } from './vary.ts'

type Coding = 'zstd' | 'gzip'

/** Of those that a client likes alike, the first: zstd takes 60 % of the processor time of gzip and gives less. */
const CODINGS: readonly Coding[] = ['zstd', 'gzip']
/** The fastest: a megabyte of rows in JSON shrinks sevenfold in 2 ms (zstd), sixfold in 4 ms (gzip), and no more than eightfold in 14 ms (gzip at level 6). */
const GZIP = { level: constants.Z_BEST_SPEED }
const ZSTD = { params: { [constants.ZSTD_c_compressionLevel]: 1 } }
/** Of a stream of events each has to go out when it comes. */
const TEXT = /^(?:text\/(?!event-stream)|application\/(?:[\w.+-]+\+)?json\b|application\/openmetrics-text\b)/

type Done = (error: Error | null, payload?: unknown) => void
type Compress = (payload: string | Uint8Array, done: Done) => void

const buffered: Record<Coding, Compress> = {
  gzip: (payload, done) => gzip(payload, GZIP, done),
  zstd: (payload, done) => zstdCompress(payload, ZSTD, done),
}
const streamed: Record<Coding, () => Transform> = { gzip: () => createGzip(GZIP), zstd: () => createZstdCompress(ZSTD) }

export const compression = fastifyPlugin<{ minBytes: number }>(
  async (http, { minBytes }) => {
    http.addHook('onSend', (request, reply, payload, done) => {
      if (!large(payload, minBytes) || !compressible(reply)) return done(null, payload)
      vary(reply, 'Accept-Encoding')
      const coding = request.method === 'HEAD' ? undefined : codingOf(request.headers['accept-encoding'])
      if (coding === undefined) return done(null, payload)
      const finish: Done = (error, compressed) => {
        if (error === null) reply.header('content-encoding', coding).removeHeader('content-length')
        done(error as null, compressed)
      }
      if (!(payload instanceof Readable)) return buffered[coding](payload, finish)
      const transform = streamed[coding]()
      // Either end that breaks off ends the other; the server hears of it by the transform, which is what it sends.
      pipeline(payload, transform, () => {})
      finish(null, transform)
    })
  },
  { name: 'svc-compression' },
)

function large(payload: unknown, minBytes: number): payload is string | Uint8Array | Readable {
  if (typeof payload === 'string' || payload instanceof Uint8Array) return payload.length >= minBytes
  return payload instanceof Readable
}

function compressible(reply: FastifyReply): boolean {
  const type = reply.getHeader('content-type')
  return typeof type === 'string' && TEXT.test(type) && !reply.hasHeader('content-encoding') && !reply.hasHeader('content-range')
}

/** The coding that the client likes best, by RFC 9110, section 12.5.3; undefined = as it is. */
export function codingOf(header: FastifyRequest['headers']['accept-encoding']): Coding | undefined {
  if (header === undefined || header === '') return undefined
  let best: Coding | undefined
  let most = 0
  const weights = weightsOf(String(header))
  for (const coding of CODINGS) {
    const weight = weights.get(coding) ?? (coding === 'gzip' ? weights.get('x-gzip') : undefined) ?? weights.get('*') ?? 0
    if (weight > most) {
      best = coding
      most = weight
    }
  }
  return best
}

function weightsOf(header: string): Map<string, number> {
  const weights = new Map<string, number>()
  for (const item of header.split(',')) {
    const [name, ...parameters] = item.split(';').map((text) => text.trim().toLowerCase())
    const given = parameters.find((parameter) => parameter.startsWith('q='))
    const weight = given === undefined ? 1 : Number(given.slice(2))
    // What cannot be read is not wanted.
    weights.set(name, Number.isFinite(weight) ? weight : 0)
  }
  return weights
}
