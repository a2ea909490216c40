/**
 * A TCP link that fails on request, between a client and a server on loopback. Nothing is kept but what both sockets hold: a link that stalls pushes back.
 * Bytes that were read on one side and not written on the other are lost with the connection, as on a real one.
 */
import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import type { Random } from '../../kernel/lib/random/index.ts'

/** up: from the client to the server. */
export type Direction = 'up' | 'down'

interface Pair {
  up: Half
  down: Half
}

interface Half {
  from: Socket
  to: Socket
  ended: boolean
}

export class FaultyLink {
  port = 0
  /** Connections that were made through it. */
  connections = 0
  private readonly target: number
  private readonly server: Server
  private readonly pairs = new Set<Pair>()
  private isCut = false
  private stalled = false
  private delayMs = 0
  /** Bytes a second in each direction. */
  private rate = Number.POSITIVE_INFINITY
  /** Bytes that still go through, of both directions. */
  private left = Number.POSITIVE_INFINITY

  private constructor(target: number) {
    this.target = target
    this.server = createServer({ allowHalfOpen: true }, (client) => this.connected(client))
  }

  /** @param target port on loopback. @param port of the link; default a free one. */
  static async to(target: number, port = 0): Promise<FaultyLink> {
    const link = new FaultyLink(target)
    link.server.listen(port, '127.0.0.1')
    await once(link.server, 'listening')
    link.port = (link.server.address() as { port: number }).port
    return link
  }

  /** Resets all connections, and each new one, until `mend`. @param afterBytes so many go through first: in the middle of a message. */
  cut(afterBytes = 0): void {
    this.left = afterBytes
    if (afterBytes > 0) return
    this.isCut = true
    this.resetAll()
  }

  /** Nothing goes through, and nobody is told, until `mend`. New connections are accepted and hear nothing. */
  stall(): void {
    this.stalled = true
    for (const { up, down } of this.pairs) {
      up.from.pause()
      down.from.pause()
    }
  }

  /** From now on whatever goes through takes so long in each direction. */
  delay(ms: number): void {
    this.delayMs = ms
  }

  /** So many bytes a second go through in each direction, from now on. */
  narrow(bytesPerSecond: number): void {
    this.rate = bytesPerSecond
  }

  /** Ends one direction of all connections: the receiver is told that nothing more comes, the sender is not. */
  halfClose(direction: Direction): void {
    for (const pair of this.pairs) end(pair[direction])
  }

  /** What goes on goes on, and new connections work. */
  mend(): void {
    this.isCut = false
    this.stalled = false
    this.delayMs = 0
    this.rate = Number.POSITIVE_INFINITY
    this.left = Number.POSITIVE_INFINITY
    for (const { up, down } of this.pairs) {
      up.from.resume()
      down.from.resume()
    }
  }

  async close(): Promise<void> {
    this.mend()
    this.resetAll()
    await new Promise((resolve) => this.server.close(resolve))
  }

  private connected(client: Socket): void {
    if (this.isCut) {
      client.on('error', () => {})
      client.resetAndDestroy()
      return
    }
    this.connections++
    const server = connect({ port: this.target, host: '127.0.0.1', allowHalfOpen: true })
    const pair = { up: { from: client, to: server, ended: false }, down: { from: server, to: client, ended: false } }
    this.pairs.add(pair)
    for (const half of [pair.up, pair.down]) {
      half.from.setNoDelay(true)
      half.from.on('data', (bytes: Buffer) => this.pass(bytes, half))
      half.from.on('end', () => this.late(() => end(half)))
      half.from.on('error', () => {})
      half.from.on('close', () => {
        // The other one may stay half open for as long as its peer likes: it is still to be reset.
        if (half.to.destroyed) this.pairs.delete(pair)
        // What the other side has sent before it closed is still to come.
        this.late(() => (half.from.errored === null ? end(half) : half.to.destroy()))
      })
      half.to.on('drain', () => {
        if (!this.stalled) half.from.resume()
      })
      if (this.stalled) half.from.pause()
    }
  }

  private pass(bytes: Buffer, half: Half): void {
    const taken = bytes.subarray(0, Math.min(bytes.length, this.left))
    this.left -= taken.length
    const last = this.left <= 0
    if (last) this.isCut = true
    if (this.rate < Number.POSITIVE_INFINITY) return this.trickle(taken, half)
    this.late(() => {
      if (half.ended || half.to.destroyed) return
      // What goes through before a cut has arrived when it comes.
      if (!half.to.write(taken, last ? () => this.resetAll() : undefined)) half.from.pause()
    })
  }

  private trickle(bytes: Buffer, half: Half): void {
    half.from.pause()
    setTimeout(
      () => {
        if (half.ended || half.to.destroyed) return
        half.to.write(bytes)
        if (!this.stalled) half.from.resume()
      },
      (bytes.length / this.rate) * 1000,
    )
  }

  private resetAll(): void {
    for (const pair of this.pairs) reset(pair)
  }

  private late(work: () => void): void {
    if (this.delayMs === 0) work()
    else setTimeout(work, this.delayMs)
  }
}

function end(half: Half): void {
  if (half.ended) return
  half.ended = true
  if (!half.to.destroyed) half.to.end()
}

function reset({ up, down }: Pair): void {
  for (const { from } of [up, down]) {
    // One that is about to be shut down cannot be reset: Node.js would leave it open, and turn for ever when the process is to end.
    if (from.writableEnded && !from.writableFinished) from.destroy()
    else if (!from.destroyed) from.resetAndDestroy()
  }
}

/** One fault at random, and its end after at most `maxMs`. @returns its name. */
export async function disturb(link: FaultyLink, random: Random, maxMs: number, sleep: (ms: number) => Promise<unknown>): Promise<string> {
  const faults: [string, () => void][] = [
    ['cut', () => link.cut()],
    ['cut in a message', () => link.cut(1 + Math.floor(random() * 10_000))],
    ['stall', () => link.stall()],
    ['delay', () => link.delay(Math.ceil(random() * 200))],
    ['no way up', () => link.halfClose('up')],
    ['no way down', () => link.halfClose('down')],
    ['stall, then cut', () => link.stall()],
  ]
  const [name, begin] = faults[Math.floor(random() * faults.length)]
  begin()
  await sleep(random() * maxMs)
  if (name === 'stall, then cut') link.cut()
  link.mend()
  return name
}
