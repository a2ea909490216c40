/** For the bench: stands between a broker and a client, and tells of each message that goes to the client and of each acknowledgement that comes from it. */
import { connect, createServer, type Socket } from 'node:net'

const PUBLISH = 3
/** Of QoS 1 and 2. */
const ACKNOWLEDGEMENTS: ReadonlySet<number> = new Set([4, 5])

/** Whole packets of a stream, by their type and what is behind their length. */
function packets(told: (type: number, body: Buffer) => void): (chunk: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0)
  return (chunk) => {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    for (;;) {
      let [length, at] = [0, 1]
      while (at < rest.length && rest[at] > 127) length += (rest[at] & 127) * 128 ** (at++ - 1)
      if (at >= rest.length) return
      length += rest[at] * 128 ** (at - 1)
      const end = at + 1 + length
      if (end > rest.length) return
      told(rest[0] >> 4, rest.subarray(at + 1, end))
      rest = rest.subarray(end)
    }
  }
}

export interface AckProxy {
  port: number
  close(): void
}

/** @param told of a message the text behind its topic and identifier, of an acknowledgement undefined. */
export async function ackProxy(target: number, told: (id: number, text: string | undefined) => void): Promise<AckProxy> {
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const broker = connect(target, '127.0.0.1')
    for (const socket of [client, broker]) {
      sockets.add(socket)
      socket.setNoDelay(true).on('error', () => {})
      socket.on('close', () => {
        sockets.delete(socket)
        for (const other of [client, broker]) other.destroy()
      })
    }
    const down = packets((type, body) => {
      if (type !== PUBLISH) return
      const behind = 2 + body.readUInt16BE(0)
      told(body.readUInt16BE(behind), body.toString('latin1', behind + 2))
    })
    const up = packets((type, body) => {
      if (ACKNOWLEDGEMENTS.has(type)) told(body.readUInt16BE(0), undefined)
    })
    broker.on('data', (chunk: Buffer) => {
      down(chunk)
      client.write(chunk)
    })
    client.on('data', (chunk: Buffer) => {
      up(chunk)
      broker.write(chunk)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    port: (server.address() as { port: number }).port,
    close() {
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
}
