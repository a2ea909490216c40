/** A collector that answers a byte at a time, and never to the end. */
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { boot } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { type Collector, httpCollector } from './testing.ts'

const DRIP_MS = 20
/** Of the node: longer than between two bytes. */
const TIMEOUT_SECS = 0.2

interface Dripping {
  port: number
  open: Set<Socket>
  close(): Promise<void>
}

async function dripping(t: Test, head: string, drip: string): Promise<Dripping> {
  const open = new Set<Socket>()
  const server = createServer((socket) => {
    open.add(socket)
    let timer: NodeJS.Timeout | undefined
    socket.on('error', () => {})
    socket.once('data', () => {
      socket.write(head)
      timer = setInterval(() => socket.write(drip), DRIP_MS)
    })
    socket.on('close', () => {
      clearInterval(timer)
      open.delete(socket)
    })
    socket.resume()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const close = async (): Promise<void> => {
    for (const socket of open) socket.destroy()
    await new Promise<void>((resolve) => server.close(() => resolve()))
  }
  t.teardown(close)
  return { port: (server.address() as AddressInfo).port, open, close }
}

for (const [name, head, drip] of [
  ['the head of its answer', 'HTTP/1.1 400 Bad Request\r\n', 'a: b\r\n'],
  ['the body of its answer', 'HTTP/1.1 400 Bad Request\r\ncontent-length: 1000000\r\n\r\n', 'x'],
])
  t.test(`${name} by the byte: the time of a request is over all the same`, async (t) => {
    const slow = await dripping(t, head, drip)
    const tracing = {
      ...{ endpoint: `http://127.0.0.1:${slow.port}`, protocol: 'http_protobuf', timeout_secs: TIMEOUT_SECS },
      ...{ sampling: 'always_on', interval_secs: 0.05, queue_size: 16, batch_size: 4 },
    }
    const node = await boot({ plugins: ['tracing'], config: { tracing } })
    t.teardown(() => node.stop())
    const get = async (path: string): Promise<string> => (await fetch(node.url + path)).text()
    const failed = async (): Promise<number> => Number(/^svc_tracing_spans_total\{result="failed"\} (\d+)$/m.exec(await get('/metrics'))?.[1])
    // More than the queue takes: what is given up has left it.
    for (let tries = 0; (await failed()) < 32 && tries < 1000; tries++) await get('/health')
    t.ok((await failed()) >= 32, 'spans that it did not take are given up')
    t.ok(slow.open.size <= 4, `and so are their requests: ${slow.open.size} are under way`)

    await slow.close()
    const again: Collector = await httpCollector(t, slow.port)
    for (let tries = 0; again.spans.length === 0 && tries < 1000; tries++) await get('/health')
    t.ok(again.spans.length > 0, 'one that answers has spans again')
  })

t.test('requests that are answered in time go over one connection, also when they are many', async (t) => {
  const collector = await httpCollector(t)
  const warnings: Error[] = []
  const warned = (warning: Error) => void warnings.push(warning)
  process.on('warning', warned)
  t.teardown(() => process.off('warning', warned))
  const tracing = { endpoint: collector.url, protocol: 'http_protobuf', timeout_secs: 10, sampling: 'always_on', interval_secs: 0.05 }
  const node = await boot({ plugins: ['tracing'], config: { tracing } })
  t.teardown(() => node.stop())
  for (let tries = 0; collector.requests < 15 && tries < 2000; tries++) await (await fetch(`${node.url}/health`)).text()
  t.ok(collector.requests >= 15)
  t.same(warnings, [])
  t.equal(collector.connections, 1)
})
