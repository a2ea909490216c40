/** Connections to a collector, each of which is closed when a request on it takes too long: the exporter's own limit begins anew with each byte that comes. */
import type { Agent, AgentOptions } from 'node:http'
import type { Duplex } from 'node:stream'

/** An agent of `node:http` or `node:https`. @param ms of a request, with its answer and the time to connect. */
export function timedAgent(Base: new (options: AgentOptions) => Agent, ms: number): Agent {
  const timers = new WeakMap<Duplex, NodeJS.Timeout>()
  const begin = (socket: Duplex): void => {
    const late = () => socket.destroy(new Error('the answer did not end in time'))
    timers.set(socket, setTimeout(late, ms))
  }
  const end = (socket: Duplex): void => clearTimeout(timers.get(socket))
  class TimedAgent extends Base {
    override createConnection(...options: Parameters<Agent['createConnection']>): Duplex | null | undefined {
      const socket = super.createConnection(...options)
      if (!socket) return socket
      begin(socket)
      return socket.once('close', () => end(socket))
    }

    override keepSocketAlive(socket: Duplex): boolean {
      end(socket)
      // Whether it is kept, which the declared type leaves out.
      return super.keepSocketAlive(socket) as unknown as boolean
    }

    override reuseSocket(socket: Duplex, request: Parameters<Agent['reuseSocket']>[1]): void {
      begin(socket)
      super.reuseSocket(socket, request)
    }
  }
  return new TimedAgent({ keepAlive: true })
}
