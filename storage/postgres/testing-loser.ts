/** For tests: a link to PostgreSQL that loses the next statement of a kind, or its answer, with the connection. */
import { once } from 'node:events'
import { createServer, connect as dial, type Socket } from 'node:net'

export interface Lost {
  of: 'commit' | 'giving up'
  what: 'answer' | 'request'
}

const MARKS = { commit: 'svc-commit', 'giving up': 'commits (id) VALUES' }

export class Loser {
  /** What is lost next, one after the other. */
  lose: Lost[] = []
  /** Called when the answer has come, before its connection ends. */
  lost: () => Promise<void> = async () => {}
  port = 0
  private readonly sockets = new Set<Socket>()
  private readonly server = createServer()

  static async to(target: number): Promise<Loser> {
    const loser = new Loser()
    loser.server.on('connection', (client) => loser.join(client, target))
    loser.server.listen(0, '127.0.0.1')
    await once(loser.server, 'listening')
    loser.port = (loser.server.address() as { port: number }).port
    return loser
  }

  private join(client: Socket, target: number): void {
    const upstream = dial(target, '127.0.0.1')
    /** The newest statement is the one that is next. */
    let isNext = false
    const end = () => [client, upstream].forEach((socket) => void socket.destroy())
    for (const socket of [client, upstream]) {
      this.sockets.add(socket)
      socket.on('error', end).on('close', end)
    }
    client.on('data', (bytes) => {
      const [next] = this.lose
      isNext = next !== undefined && bytes.includes(MARKS[next.of])
      if (isNext && next.what === 'request') {
        this.lose.shift()
        end()
      } else upstream.write(bytes)
    })
    upstream.on('data', (bytes) => {
      if (isNext) {
        isNext = false
        this.lose.shift()
        void this.lost().then(end)
      } else client.write(bytes)
    })
  }

  close(): void {
    for (const socket of this.sockets) socket.destroy()
    this.server.close()
  }
}
