/**
 * The listener and a server of @grpc/grpc-js side by side, each in a process of its own, answering one client on node:http2 in turns:
 * node kernel/lib/grpc/grpc-js.bench.ts [rounds] [part of a case's name]
 * Milliseconds of wall clock and of the server's processor, medians of the rounds; ratios are of grpc-js to the listener, so above 1 the listener is faster.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { type ClientHttp2Session, connect, constants } from 'node:http2'
import { createServer, connect as dial, type Socket } from 'node:net'
import { Server, ServerCredentials, type ServerReadableStream, type ServerWritableStream, type sendUnaryData } from '@grpc/grpc-js'
import { Type } from 'typebox'
import { Value } from 'typebox/value'
import { grpcListenerKeys } from './config.ts'
import { GrpcListener } from './listener.ts'
import type { GrpcMethod } from './method.ts'
import type { GrpcOwner } from './owner.ts'

const MIB = 1_048_576
const DOWNLOAD = 64 * MIB
/** Each way, of the connection that is not local. */
const DELAY_MS = 5
type Kind = 'listener' | 'grpc-js'
const KINDS: readonly Kind[] = ['listener', 'grpc-js']

const answerOf = (bytes: number): Buffer => {
  const answer = Buffer.alloc(8)
  answer.writeDoubleBE(bytes)
  return answer
}

async function listen(): Promise<number> {
  const methods: GrpcMethod<object>[] = [
    { path: '/b.B/Echo', action: 'read', carriesPoints: true, kind: 'unary', handle: (request) => request },
    {
      path: '/b.B/Write',
      action: 'write',
      carriesPoints: true,
      kind: 'client_stream',
      handle: async (requests) => {
        let bytes = 0
        for await (const request of requests) bytes += request.length
        return answerOf(bytes)
      },
    },
    {
      path: '/b.B/Read',
      action: 'read',
      kind: 'server_stream',
      handle: async (request, _call, send) => {
        const message = Buffer.alloc(Buffer.from(request).readUInt32BE(), 'x')
        for (let sent = 0; sent < DOWNLOAD; sent += message.length) await send(message)
      },
    },
  ]
  const nothing = () => {}
  const owner: GrpcOwner<object> = {
    id: 'bench',
    log: { debug: nothing, info: nothing, warn: nothing, error: nothing, isLevelEnabled: () => false },
    metrics: { counter: () => ({ inc: nothing }), gauge: () => ({ set: nothing }) },
    server: {
      http_addr: '127.0.0.1:0',
      allowed_hosts: [],
      cors_allowed_origins: [],
      max_connections: 100,
      max_control_body_size: MIB,
      request_timeout_secs: 0,
      shutdown_timeout_secs: 1,
    },
    tls: undefined,
    auth: { open: false, admit: () => ({}) },
    clock: { now: () => Date.now() },
    schedule: nothing,
    stopping: new AbortController().signal,
  }
  const listener = new GrpcListener(owner, Value.Create(Type.Object(grpcListenerKeys(0))), methods)
  await listener.start()
  return listener.port
}

/** With the options that are quickest. */
async function listenGrpcJs(): Promise<number> {
  const server = new Server({
    'grpc.enable_channelz': 0,
    'grpc.max_receive_message_length': -1,
    'grpc.max_send_message_length': -1,
    'grpc.max_concurrent_streams': 256,
  })
  const same = (bytes: Buffer): Buffer => bytes
  const codec = { requestSerialize: same, requestDeserialize: same, responseSerialize: same, responseDeserialize: same }
  const method = (path: string, requestStream: boolean, responseStream: boolean) => ({ path, requestStream, responseStream, ...codec })
  server.addService(
    { echo: method('/b.B/Echo', false, false), write: method('/b.B/Write', true, false), read: method('/b.B/Read', false, true) },
    {
      echo: ({ request }: { request: Buffer }, callback: sendUnaryData<Buffer>) => callback(null, request),
      write: (call: ServerReadableStream<Buffer, Buffer>, callback: sendUnaryData<Buffer>) => {
        let bytes = 0
        call.on('data', (request: Buffer) => {
          bytes += request.length
        })
        call.on('end', () => callback(null, answerOf(bytes)))
      },
      read: async (call: ServerWritableStream<Buffer, Buffer>) => {
        const message = Buffer.alloc(call.request.readUInt32BE(), 'x')
        for (let sent = 0; sent < DOWNLOAD; sent += message.length) if (!call.write(message)) await once(call, 'drain')
        call.end()
      },
    },
  )
  return new Promise((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, port) => (error === null ? resolve(port) : reject(error)))
  })
}

function framed(message: Buffer): Buffer {
  const frame = Buffer.alloc(5 + message.length)
  frame.writeUInt32BE(message.length, 1)
  message.copy(frame, 5)
  return frame
}

/** One call. @param parts go out one after the other. @returns the bytes of the answer, with their frames. @throws Error for a status that is not OK. */
async function call(session: ClientHttp2Session, path: string, parts: readonly Buffer[], times = 1): Promise<{ bytes: number; last: Buffer }> {
  const stream = session.request({ ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers' })
  let bytes = 0
  let last: Buffer = Buffer.alloc(0)
  let status: unknown
  stream.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    last = chunk
  })
  stream.on('trailers', (trailers) => {
    status = trailers['grpc-status']
  })
  const closed = once(stream, 'close')
  for (let i = 0; i < times; i++) for (const part of parts) if (!stream.write(part)) await once(stream, 'drain')
  stream.end()
  await closed
  if (status !== '0') throw new Error(`cannot measure ${path}: it ended with status ${status}`)
  return { bytes, last }
}

async function unary(session: ClientHttp2Session, calls: number, atOnce: number): Promise<void> {
  const request = [framed(Buffer.alloc(100, 'x'))]
  let left = calls
  const one = async (): Promise<void> => {
    while (left-- > 0) if ((await call(session, '/b.B/Echo', request)).bytes !== request[0].length) throw new Error('cannot measure Echo: it answers otherwise')
  }
  await Promise.all(Array.from({ length: atOnce }, one))
}

/** Messages go out in writes of 64 KiB or one message, as clients that join them do. */
async function upload(session: ClientHttp2Session, size: number, total: number): Promise<void> {
  const each = Math.max(1, Math.floor(65_536 / size))
  const part = Buffer.concat(Array.from({ length: each }, () => framed(Buffer.alloc(size, 'x'))))
  const times = Math.floor(total / (each * size))
  const { last } = await call(session, '/b.B/Write', [part], times)
  const bytes = last.readDoubleBE(last.length - 8)
  if (bytes !== times * each * size) throw new Error(`cannot measure Write: ${bytes} bytes arrived`)
}

async function download(session: ClientHttp2Session, size: number): Promise<void> {
  const request = Buffer.alloc(4)
  request.writeUInt32BE(size)
  const { bytes } = await call(session, '/b.B/Read', [framed(request)])
  if (bytes !== DOWNLOAD + 5 * (DOWNLOAD / size)) throw new Error(`cannot measure Read: ${bytes} bytes came`)
}

const CASES: readonly [name: string, far: boolean, run: (session: ClientHttp2Session) => Promise<void>][] = [
  ['unary 100 B, 1 at once, 1,000 calls', false, (session) => unary(session, 1000, 1)],
  ['unary 100 B, 32 at once, 4,000 calls', false, (session) => unary(session, 4000, 32)],
  ['write 32 MiB, messages of 1 KiB', false, (session) => upload(session, 1024, 32 * MIB)],
  ['write 64 MiB, messages of 16 KiB', false, (session) => upload(session, 16_384, 64 * MIB)],
  ['write 64 MiB, messages of 64 KiB', false, (session) => upload(session, 65_536, 64 * MIB)],
  ['write 64 MiB, messages of 1 MiB', false, (session) => upload(session, MIB, 64 * MIB)],
  [`write 4 MiB, 64 KiB, ${DELAY_MS} ms each way`, true, (session) => upload(session, 65_536, 4 * MIB)],
  ['read 64 MiB, messages of 64 KiB', false, (session) => download(session, 65_536)],
  ['read 64 MiB, messages of 1 MiB', false, (session) => download(session, MIB)],
]

/** Hands on what comes with a delay. @returns the port. */
async function delayed(port: number): Promise<number> {
  const pipe = (from: Socket, to: Socket): void => {
    from.on('data', (chunk) => void setTimeout(() => to.write(chunk), DELAY_MS))
    from.on('close', () => to.destroy())
    from.on('error', () => to.destroy())
  }
  const proxy = createServer({ noDelay: true }, (client) => {
    const server = dial({ port, host: '127.0.0.1', noDelay: true })
    pipe(client, server)
    pipe(server, client)
  })
  proxy.unref()
  await once(proxy.listen(0, '127.0.0.1'), 'listening')
  return (proxy.address() as { port: number }).port
}

async function sessionTo(port: number): Promise<ClientHttp2Session> {
  const session = connect(`http://127.0.0.1:${port}`, { settings: { initialWindowSize: 4 * MIB }, maxSessionMemory: 1024 })
  await once(session, 'remoteSettings')
  session.setLocalWindowSize(16 * MIB)
  return session
}

interface Side {
  child: ChildProcess
  near: ClientHttp2Session
  far: ClientHttp2Session
}

async function side(kind: Kind): Promise<Side> {
  const child = fork(import.meta.filename, ['serve', kind])
  const [port] = (await once(child, 'message')) as [number]
  return { child, near: await sessionTo(port), far: await sessionTo(await delayed(port)) }
}

async function processorMs(child: ChildProcess): Promise<number> {
  child.send('cpu')
  return ((await once(child, 'message')) as [number])[0]
}

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1]

async function compare(rounds: number, part: string): Promise<void> {
  const sides = { listener: await side('listener'), 'grpc-js': await side('grpc-js') }
  console.log(`${''.padEnd(38)} listener: wall  cpu   grpc-js: wall  cpu   grpc-js / listener: wall  cpu`)
  for (const [name, far, run] of CASES.filter(([name]) => name.includes(part))) {
    const wall: Record<Kind, number[]> = { listener: [], 'grpc-js': [] }
    const cpu: Record<Kind, number[]> = { listener: [], 'grpc-js': [] }
    for (let round = -1; round < rounds; round++) {
      for (const kind of round % 2 === 0 ? KINDS : KINDS.toReversed()) {
        const { child, near, far: away } = sides[kind]
        const before = await processorMs(child)
        const begin = performance.now()
        await run(far ? away : near)
        const took = performance.now() - begin
        const used = (await processorMs(child)) - before
        // The first is to warm up.
        if (round < 0) continue
        wall[kind].push(took)
        cpu[kind].push(used)
      }
    }
    const of = (kind: Kind): string => `${median(wall[kind]).toFixed(0).padStart(5)} ${median(cpu[kind]).toFixed(0).padStart(4)}`
    const ratio = (values: Record<Kind, number[]>): string => median(values['grpc-js'].map((value, i) => value / values.listener[i])).toFixed(2)
    console.log(`${name.padEnd(38)}       ${of('listener').padStart(14)}        ${of('grpc-js')} ${ratio(wall).padStart(27)} ${ratio(cpu).padStart(4)}`)
  }
  for (const { child, near, far } of Object.values(sides)) {
    near.destroy(undefined, constants.NGHTTP2_NO_ERROR)
    far.destroy(undefined, constants.NGHTTP2_NO_ERROR)
    child.disconnect()
  }
}

async function serve(kind: Kind): Promise<void> {
  process.on('disconnect', () => process.exit())
  process.on('message', () => {
    const { user, system } = process.cpuUsage()
    process.send?.((user + system) / 1000)
  })
  process.send?.(await (kind === 'listener' ? listen() : listenGrpcJs()))
}

if (process.argv[2] === 'serve') await serve(process.argv[3] as Kind)
else await compare(Number(process.argv[2] ?? 5), process.argv[3] ?? '')
