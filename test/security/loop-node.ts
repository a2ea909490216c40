/** A real server with all listeners whose event loop is watched, and a client that sends it one body after the other. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { Agent, request } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Client, credentials } from '@grpc/grpc-js'
import { runServer } from '../support/server.ts'
import type { AttackBody, GrpcBody, HttpBody } from './loop-body.ts'
import { PLANE_PLUGINS, planeConfig } from './loop-plane.ts'
import type { LongestTurn } from './loop-probe.ts'

const PROBE = fileURLToPath(new URL('./loop-probe.ts', import.meta.url))
const PLUGINS = [
  'native',
  'line_protocol',
  'remote_write',
  'otlp',
  'grpc',
  'flight_sql',
  'promql',
  'exemplars',
  'sql',
  'export',
  'backup',
  'namespaces',
  ...PLANE_PLUGINS,
]
/** What an answer may take. */
const ANSWER_MS = 60_000
/** Of a write that is told to come again. */
const MAX_TRIES = 20
const PAUSE_MS = 500
/** The same over gRPC. */
const UNAVAILABLE = 14

export interface Measured extends LongestTurn {
  /** Status of the answer: of HTTP, or the number of gRPC. */
  status: number | string
  ms: number
}

export interface WatchedNode {
  /** Sends a body, waits for its answer and for what it leaves behind, and returns the longest turn meanwhile. */
  send(body: AttackBody): Promise<Measured>
  /** The longest turn since it was last asked. */
  longest(): Promise<LongestTurn>
  stop(): Promise<void>
}

export async function watchedNode(): Promise<WatchedNode> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-loop-'))
  const socket = join(folder, 'probe')
  await writeFile(
    join(folder, 'svc.toml'),
    `plugins = ${JSON.stringify(PLUGINS)}\n[database]\nwarm_up_ms = 0\n[promql]\nadmin_api = "on"\n${await planeConfig(folder)}`,
  )
  const server = await runServer(join(folder, 'svc.toml'), {
    nodeArgs: ['--import', PROBE],
    env: { SVC_LOOP_PROBE: socket },
  })
  const clients = Object.fromEntries(
    ['grpc', 'flight_sql'].map((plugin) => [plugin, new Client(`127.0.0.1:${portOf(server.output(), plugin)}`, credentials.createInsecure(), UNLIMITED)]),
  )
  const agent = new Agent({ keepAlive: false })
  const longest = () => ask(socket)
  return {
    longest,
    async send(body) {
      const payload = body.over === 'http' ? body.body() : body.message()
      const once = () => (body.over === 'http' ? post(agent, server.url, body, payload) : call(clients[body.over], body, payload))
      if (body.over === 'http') await body.prepare?.(server.url)
      const before = await longest()
      const began = performance.now()
      let status = await once()
      // What came before is on its way to the disk still.
      for (let tries = 0; tries < MAX_TRIES && (status === 503 || status === UNAVAILABLE); tries++) {
        await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
        status = await once()
      }
      const ms = performance.now() - began
      // The storage goes on after its answer, and so do the collector of garbage and the buffers of the connection.
      await new Promise((resolve) => setTimeout(resolve, 50))
      const measured = await longest()
      return { status, ms, ...measured, slowness: Math.max(before.slowness, measured.slowness) }
    },
    async stop() {
      for (const client of Object.values(clients)) client.close()
      agent.destroy()
      await server.stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

const UNLIMITED = { 'grpc.max_receive_message_length': -1, 'grpc.max_send_message_length': -1 }

function portOf(output: string, plugin: string): number {
  const found = output.split('\n').find((line) => line.includes('listening') && line.includes(plugin))
  const port = found === undefined ? null : /\bport=(\d+)/.exec(found)
  if (port === null) throw new Error(`no listener of ${plugin} in:\n${output}`)
  return Number(port[1])
}

async function ask(socket: string): Promise<LongestTurn> {
  let text = ''
  for await (const chunk of connect(socket)) text += chunk
  return JSON.parse(text) as LongestTurn
}

function post(agent: Agent, url: string, { method = 'POST', path, headers }: HttpBody, body: Buffer): Promise<number | string> {
  return new Promise((resolve) => {
    const sent = request(
      `${url}${path}`,
      { method, agent, headers: { ...headers, ...(method === 'GET' ? {} : { 'content-length': body.length }) } },
      (answer) => {
        answer.resume()
        answer.on('end', () => resolve(answer.statusCode ?? 0))
        // Its connection may be cut while the rest of a body that is too large is on its way.
        answer.on('error', () => resolve(answer.statusCode ?? 0))
      },
    )
    sent.setTimeout(ANSWER_MS, () => sent.destroy(new Error('no answer')))
    sent.on('error', (error) => resolve((error as NodeJS.ErrnoException).code ?? error.message))
    sent.end(body)
  })
}

const bytes = (message: Buffer): Buffer => message

function call(client: Client, { path, stream }: GrpcBody, message: Buffer): Promise<number | string> {
  return new Promise((resolve) => {
    const options = { deadline: Date.now() + ANSWER_MS }
    if (stream) {
      const sent = client.makeBidiStreamRequest(path, bytes, bytes, options)
      sent.on('data', () => {})
      sent.on('error', () => {})
      sent.on('status', ({ code }) => resolve(code))
      sent.write(message)
      sent.end()
      return
    }
    const sent = client.makeServerStreamRequest(path, bytes, bytes, message, options)
    sent.on('data', () => {})
    sent.on('error', () => {})
    sent.on('status', ({ code }) => resolve(code))
  })
}
