/** A listener of its own: the operations at the root, and nothing else. */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Server as TlsServer } from 'node:tls'
import type { Svc } from 'svcdb'
import {
  boundConnections,
  cannotListen,
  drainMs,
  drainTime,
  handshakeMs,
  IdleConnections,
  parseAddress,
  plainAddress,
  refuseDuplicates,
  serveInOrder,
  takeChunksInTurns,
  tlsOptions,
  tlsReload,
} from 'svcdb/lib/network'
import type { Answer, Incoming, OperatorApi } from './api.ts'
import { IncomingBody, type OpenHold } from './body.ts'
import { pairsOf, splitUrl, textOf } from './handler.ts'
import type { ApiMetrics } from './metrics.ts'
import { refuseInForm, requireHost } from './no-request.ts'

const IDLE_SWEEP_MS = 20

export class Listener {
  private readonly svc: Svc
  private readonly addr: string
  private readonly api: OperatorApi
  private readonly metrics: ApiMetrics
  private server: Server | undefined
  private idle: IdleConnections | undefined
  private readonly left: (ms: number) => number
  private draining = false

  constructor(svc: Svc, addr: string, api: OperatorApi, metrics: ApiMetrics) {
    this.svc = svc
    this.addr = addr
    this.api = api
    this.metrics = metrics
    this.left = drainTime(svc)
  }

  /** @throws IO_ERROR naming the key, TLS_ERROR. */
  async start(): Promise<void> {
    const { svc, addr } = this
    const { tls } = svc
    const { host, port } = parseAddress(addr)
    const serve = (request: IncomingMessage, response: ServerResponse) => void this.serve(request, response)
    const { request_timeout_secs: requestSecs, keep_alive_timeout_secs: idleSecs } = svc.server
    // Whole milliseconds: Node.js takes no others.
    const limits = { requestTimeout: Math.ceil(requestSecs * 1000), keepAliveTimeout: Math.ceil(idleSecs * 1000), requireHostHeader: false }
    const secure = tls === undefined ? undefined : await tlsOptions(tls)
    const server: Server =
      secure === undefined
        ? (await import('node:http')).createServer(limits, serve)
        : (await import('node:https')).createServer({ ...limits, ...secure, handshakeTimeout: handshakeMs(svc.server) }, serve)
    refuseInForm(server)
    serveInOrder(server)
    takeChunksInTurns(server)
    const idle = new IdleConnections(server)
    this.idle = idle
    boundConnections(server, {
      max: svc.server.max_connections,
      log: svc.log,
      refused: () => this.metrics.refused.inc(),
      makeRoom: (waitedMs) => idle.makeRoom(waitedMs),
      closed: () => this.metrics.closed.inc(),
    })
    if (tls !== undefined && secure !== undefined && tls.reload_interval_secs > 0)
      svc.schedule('tls_reload', tls.reload_interval_secs * 1000, tlsReload(server as unknown as TlsServer, tls, secure, svc.log), { local: true })
    await new Promise<void>((resolve, reject) => {
      const failed = (error: Error) => reject(cannotListen('operator_api.addr', addr, error))
      server.once('error', failed)
      server.listen({ host, port }, () => {
        server.off('error', failed)
        server.on('error', (error) => svc.log.warn({ err: error }, 'the listener failed'))
        resolve()
      })
    })
    this.server = server
    svc.stopping.addEventListener('abort', () => void (this.draining = true), { once: true })
    svc.log.info({ addr, port: (server.address() as { port: number }).port, tls: tls !== undefined }, 'listening')
  }

  /** Accepts no more, waits for what is under way, and cuts what is left. Safe twice. */
  async stop(): Promise<void> {
    const { server } = this
    this.server = undefined
    if (server === undefined) return
    this.draining = true
    const late = setTimeout(() => server.closeAllConnections(), this.left(drainMs(this.svc.server)))
    const idle = setInterval(() => {
      server.closeIdleConnections()
      this.idle?.closeUnasked()
    }, IDLE_SWEEP_MS)
    await new Promise<void>((resolve) => server.close(() => resolve()))
    clearTimeout(late)
    clearInterval(idle)
  }

  private async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const requestId = randomUUID()
    let answer: Answer
    try {
      refuseDuplicates(request.rawHeaders)
      requireHost(request)
      answer = await this.api.answer(incomingOf(request, requestId, this.svc.http.bodyHold))
    } catch (error) {
      const body = JSON.stringify({ error: (error as Error).message })
      answer = { status: 400, headers: { 'content-type': 'application/json; charset=utf-8' }, body, operationId: '' }
    }
    const { status, headers, body, operationId } = answer
    this.metrics.answers.inc({ operation: operationId, status: String(status) })
    const length = status === 204 ? {} : { 'content-length': Buffer.byteLength(body) }
    const { 'content-type': type, ...more } = headers
    response.writeHead(status, {
      ...more,
      ...(status === 204 ? {} : { 'content-type': type }),
      ...length,
      'x-request-id': requestId,
      ...(this.draining ? { connection: 'close' } : {}),
    })
    response.end(status === 204 || request.method === 'HEAD' ? undefined : body)
  }
}

function incomingOf(request: IncomingMessage, requestId: string, hold: OpenHold): Incoming {
  const [path, query] = splitUrl(request.url ?? '/')
  return {
    method: request.method ?? 'GET',
    path,
    query,
    header: (name) => textOf(request.headers[name]),
    headers: () => pairsOf(request.rawHeaders),
    body: new IncomingBody(request, hold),
    address: plainAddress(request.socket.remoteAddress),
    requestId,
  }
}
