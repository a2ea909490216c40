/** Bodies that callers send, whoever they are, count against `server.max_body_memory`. */
import { connect, type Socket } from 'node:net'
import { collect } from 'svcdb/lib/heap'
import t, { type Test } from 'tap'
import { startApi, tokenOf } from './testing.ts'

const MB = 1 << 20
const CALLS = 8
const SENT = 900_000

/** A call whose body does not come to its end. @returns its status, once it is answered. */
function begun(t: Test, port: number, path: string): { socket: Socket; status: Promise<number> } {
  const socket = connect(port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  let text = ''
  const status = new Promise<number>((resolve) => {
    socket.on('data', (chunk) => {
      text += chunk
      const [, code] = /^HTTP\/1\.1 (\d+) /.exec(text) ?? []
      if (code !== undefined) resolve(Number(code))
    })
    socket.on('error', () => {})
  })
  const head = ['Host: localhost', `Authorization: Bearer ${tokenOf('nobody')}`, 'Content-Type: application/json', `Content-Length: ${SENT + 1}`]
  socket.write(`POST ${path} HTTP/1.1\r\n${head.join('\r\n')}\r\n\r\n`)
  socket.write(Buffer.alloc(SENT, ' '))
  return { socket, status }
}

t.test('those that find no room are told to come again, on either listener', async (t) => {
  const { node } = await startApi(t, [], {
    config: { server: { max_body_memory: MB, max_body_size: MB }, operator_api: { addr: '127.0.0.1:0' } },
  })
  const own = node.port('operator_api')
  const server = Number(new URL(node.url).port)
  const held = async (): Promise<number> => Number(/^svc_http_body_bytes (\d+)/m.exec((await node.inject('/metrics')).body)?.[1])
  for (const [port, base] of [
    [own, ''],
    [server, '/api/v1/plane'],
  ] as const)
    for (const path of ['/halts', '/events']) {
      const calls = Array.from({ length: CALLS }, () => begun(t, port, base + path))
      const refused: number[] = []
      for (const { status } of calls) void status.then((code) => refused.push(code))
      for (const end = Date.now() + 20_000; refused.length < CALLS - 1 && Date.now() < end; ) await new Promise((resolve) => setTimeout(resolve, 5))
      t.same(
        refused,
        Array.from({ length: CALLS - 1 }, () => 503),
        path,
      )
      t.ok((await held()) <= MB)
      for (const { socket } of calls) socket.end(' ')
      for (const { socket } of calls) socket.destroy()
      for (const end = Date.now() + 20_000; (await held()) > 0 && Date.now() < end; ) await new Promise((resolve) => setTimeout(resolve, 5))
      t.equal(await held(), 0, 'what they had is given back')
    }
})

t.test('one in very many chunks takes no more memory than its bytes', async (t) => {
  const { node } = await startApi(t, [], { config: { operator_api: { addr: '127.0.0.1:0' } } })
  const chunks = 200_000
  const held = async (): Promise<number> => Number(/^svc_http_body_bytes (\d+)/m.exec((await node.inject('/metrics')).body)?.[1])
  const used = (): number => {
    collect({ type: 'major', execution: 'sync' })
    const { heapUsed, arrayBuffers } = process.memoryUsage()
    return heapUsed + arrayBuffers
  }
  const before = used()
  const socket = connect(node.port('operator_api'), '127.0.0.1')
  t.teardown(() => socket.destroy())
  const head = ['Host: localhost', `Authorization: Bearer ${tokenOf('nobody')}`, 'Content-Type: application/json', 'Transfer-Encoding: chunked']
  socket.write(`POST /events HTTP/1.1\r\n${head.join('\r\n')}\r\n\r\n`)
  socket.write('1\r\n \r\n'.repeat(chunks))
  for (const end = Date.now() + 60_000; (await held()) < chunks && Date.now() < end; ) await new Promise((resolve) => setTimeout(resolve, 20))
  t.equal(await held(), chunks)
  const bytes = used() - before
  t.ok(bytes < 20 * chunks, `${bytes} bytes for ${chunks}`)
})
