/** The operations on the listener of the server, below the base path. */
import type { HttpOptions, HttpRequest, Svc } from 'svcdb'
import { plainAddress } from 'svcdb/lib/network'
import type { Answer, Incoming, OperatorApi } from './api.ts'
import { IncomingBody, type OpenHold } from './body.ts'
import type { ApiMetrics } from './metrics.ts'
import type { Operation } from './operation.ts'

type Reply = Parameters<Parameters<Svc['http']['errorsBelow']>[1]>[2]

/** @param api is there when the first call comes. */
export function addRoutes(svc: Svc, base: string, operations: readonly Operation[], api: () => OperatorApi, metrics: ApiMetrics): void {
  const answer = async (request: HttpRequest, reply: Reply): Promise<Reply> =>
    send(reply, await api().answer(incomingOf(request, base, svc.http.bodyHold)), metrics)
  // Before the server reads anything of the body: the gate has an order of its own. Its own credentials open nothing here, and these nothing elsewhere.
  const options: HttpOptions = {
    config: { action: 'public' },
    schema: { hide: true } as never,
    onRequest: (request, reply) => answer(request as HttpRequest, reply),
    errorHandler: (error, request, reply) => void refused(error, request as HttpRequest, reply, answer),
  }
  const never = () => {
    throw new Error('the gate has answered')
  }
  for (const { method, path } of operations) svc.http.route({ ...options, method, url: base + path.replaceAll(/\{(\w+)\}/g, ':$1'), handler: never })
  svc.http.errorsBelow(`${base}/`, (error, request, reply) => refused(error, request, reply, answer))
}

/** What the server refuses before it comes to the gate. A path that cannot be routed is the gate's to refuse: it asks first who calls. */
async function refused(error: unknown, request: HttpRequest, reply: Reply, answer: (request: HttpRequest, reply: Reply) => Promise<Reply>): Promise<Reply> {
  const { kind, message } = error as { kind?: { http: number }; message: string }
  const status = kind?.http
  const isGates = status === undefined || status === 404 || status === 405 || status === 415
  if (isGates) return answer(request, reply)
  reply.code(status).type('application/json; charset=utf-8').serializer(JSON.stringify)
  return reply.send({ error: status >= 500 ? 'the server failed' : message }) as Reply
}

function send(reply: Reply, { status, headers, body, operationId }: Answer, metrics: ApiMetrics): Reply {
  metrics.answers.inc({ operation: operationId, status: String(status) })
  reply.code(status).headers(headers).serializer(String)
  return (status === 204 ? reply.removeHeader('content-type').send() : reply.send(body)) as Reply
}

function incomingOf(request: HttpRequest, base: string, hold: OpenHold): Incoming {
  const { raw } = request
  const [path, query = ''] = splitUrl(raw.url ?? '/')
  return {
    method: raw.method ?? 'GET',
    path: path.slice(base.length),
    query,
    header: (name) => textOf(raw.headers[name]),
    headers: () => pairsOf(raw.rawHeaders),
    body: new IncomingBody(raw, hold),
    address: plainAddress(raw.socket?.remoteAddress),
    requestId: request.id,
  }
}

/** Of a whole URL, as clients send it to proxies and every server has to take it (RFC 9112, section 3.2.2). */
const ORIGIN = /^https?:\/\/[^/?]*/i

/** @returns path and query. */
export function splitUrl(target: string): [string, string] {
  const url = target.startsWith('/') ? target : target.replace(ORIGIN, '')
  const at = url.indexOf('?')
  return at < 0 ? [url, ''] : [url.slice(0, at), url.slice(at + 1)]
}

export function textOf(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value[0] : value
}

export function pairsOf(raw: readonly string[]): [string, string][] {
  return Array.from({ length: raw.length / 2 }, (_, i) => [raw[2 * i].toLowerCase(), raw[2 * i + 1]])
}
