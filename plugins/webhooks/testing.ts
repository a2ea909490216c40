/** For tests: receivers over HTTPS with a certificate of their own, and nodes with the plugin and one that hands deliveries over. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer as createHttp, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Clock, definePlugin, type Plugin, WEBHOOKS, type WebhookDelivery, type WebhookReport, type Webhooks } from 'svcdb'
import { type BootOptions, boot, Logs, resolveConfig, SvcNode, type TestNode } from 'svcdb/testkit'
import type { Test } from 'tap'
import { selfSigned } from '../catalog_auth/certificate.ts'
import webhooks from './index.ts'
import type { NewDelivery, Outbox, Queued } from './outbox.ts'

export const SECRETS = ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD']

export interface Received {
  path: string
  headers: IncomingHttpHeaders
  body: string
  at: number
}

export type Answer = (request: Received, response: ServerResponse, socket: Socket) => void

export interface Receiver {
  url: string
  port: number
  received: Received[]
  /** Connections that were made to it. */
  connections: number
  answer: Answer
  close(): Promise<void>
}

export const ok: Answer = (_, response) => void response.writeHead(204).end()
export const status =
  (code: number, headers: Record<string, string> = {}): Answer =>
  (_, response) =>
    void response.writeHead(code, headers).end()

export interface Certificate {
  key: string
  certificate: string
  caFile: string
}

/** For localhost and 127.0.0.1, or for another name only. */
export async function makeCertificate(t: Test, names: { type: 'dns' | 'ip'; value: string }[] = LOCAL): Promise<Certificate> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-webhooks-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const day = 86_400_000
  const made = await selfSigned({ commonName: names[0].value, names, notBefore: new Date(Date.now() - day), notAfter: new Date(Date.now() + day) })
  const caFile = join(folder, 'ca.pem')
  writeFileSync(caFile, made.certificate)
  return { ...made, caFile }
}

const LOCAL: { type: 'dns' | 'ip'; value: string }[] = [
  { type: 'dns', value: 'localhost' },
  { type: 'ip', value: '127.0.0.1' },
]

/** @param certificate undefined = plain HTTP. @param port of one that was closed. */
export async function receive(t: Test, certificate: Certificate | undefined, answer: Answer = ok, port = 0): Promise<Receiver> {
  const handle = (request: IncomingMessage, response: ServerResponse) => {
    let body = ''
    request.setEncoding('utf8')
    request.on('data', (text: string) => (body += text))
    request.on('end', () => {
      const received = { path: request.url ?? '', headers: request.headers, body, at: Date.now() }
      receiver.received.push(received)
      receiver.answer(received, response, request.socket)
    })
    request.on('error', () => {})
  }
  const server = certificate === undefined ? createHttp(handle) : createServer({ key: certificate.key, cert: certificate.certificate }, handle)
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    receiver.connections++
    sockets.add(socket.on('error', () => {}))
    socket.on('close', () => sockets.delete(socket))
  })
  server.on('tlsClientError', () => {})
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  const own = (server.address() as AddressInfo).port
  const close = async () => {
    const closed = new Promise((resolve) => server.close(resolve))
    for (const socket of sockets) socket.destroy()
    await closed
  }
  const receiver: Receiver = { url: `http${certificate === undefined ? '' : 's'}://localhost:${own}`, port: own, received: [], connections: 0, answer, close }
  t.teardown(close)
  return receiver
}

/** A plugin that hands over, and what it was told. */
export function teller(id = 'teller'): { plugin: Plugin; hooks(): Webhooks; reports: WebhookReport[] } {
  const held: { hooks?: Webhooks } = {}
  const reports: WebhookReport[] = []
  const plugin = definePlugin({
    id,
    summary: 'Tells others',
    stability: 'experimental',
    requires: [WEBHOOKS],
    setup(svc) {
      held.hooks = svc.use<Webhooks>(WEBHOOKS)
      held.hooks.observe(id, (report) => reports.push(report))
    },
  })
  return { plugin, hooks: () => held.hooks as Webhooks, reports }
}

export function delivery(name: string, id: string, data: unknown = { value: 1 }, namespace = 'default'): WebhookDelivery {
  return {
    endpoint: { owner: 'teller', namespace, name },
    event: { id, source: 'svc:trigger/hot', type: 'io.svc.signal.fired', time: 1_700_000_000_000, data },
  }
}

export const at = (name: string, namespace = 'default') => ({ owner: 'teller', namespace, name })

export interface WebhookNode {
  node: TestNode
  hooks: Webhooks
  reports: WebhookReport[]
  logged: string[]
}

/** @param section of [webhooks]: pauses are short. */
export async function start(t: Test, section: Record<string, unknown>, options: BootOptions = {}): Promise<WebhookNode> {
  const { plugin, hooks, reports } = teller()
  const logged: string[] = []
  const node = await boot({
    ...options,
    plugins: [webhooks, plugin, ...(options.plugins ?? [])],
    config: { ...options.config, webhooks: withDefaults(section) },
    log: (line) => logged.push(line),
  })
  t.teardown(() => node.stop())
  return { node, hooks: hooks(), reports, logged }
}

export function withDefaults(section: Record<string, unknown>): Record<string, unknown> {
  return { signing_secrets: SECRETS, allow_private_targets: true, timeout_secs: 1, retry_initial_secs: 0.02, retry_max_secs: 0.1, ...section }
}

/** A node over a folder that outlives it. */
export async function openNode(
  dataDir: string,
  section: Record<string, unknown>,
  clock?: Clock,
): Promise<{ hooks: Webhooks; reports: WebhookReport[]; stop(): Promise<unknown> }> {
  const { plugin, hooks, reports } = teller()
  const tree = { plugins: [], server: { http_addr: '127.0.0.1:0' }, database: { data_dir: dataDir }, webhooks: withDefaults(section) }
  const config = await resolveConfig({ tree: tree as never, file: 'the test', folder: dataDir, overrides: new Map() }, { plugins: [webhooks, plugin] })
  const node = new SvcNode(config, { logs: new Logs({ level: 'error', format: 'json', destination: { write() {} } }), clock })
  try {
    await node.setup()
    await node.start()
  } catch (error) {
    await node.stop()
    throw error
  }
  return { hooks: hooks(), reports, stop: () => node.stop() }
}

/** Value of a metric's line, labels included. */
export async function metric(node: TestNode, line: string): Promise<number> {
  const text = (await node.inject('/metrics')).body
  const found = text.split('\n').find((each) => each.startsWith(`${line} `))
  return found === undefined ? Number.NaN : Number(found.slice(line.length + 1))
}

/** Hands deliveries over. @returns what all transactions have done. */
export async function enqueue(outbox: Outbox, deliveries: readonly NewDelivery[]): Promise<Queued> {
  const parts: Queued[] = []
  await outbox.enqueue(deliveries, (part) => void parts.push(part))
  return { answers: parts.flatMap((part) => part.answers), added: parts.flatMap((part) => part.added), dropped: parts.flatMap((part) => part.dropped) }
}
