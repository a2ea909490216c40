/**
 * Names such as localhost stand for several addresses, and one server listens on one. The others only take connections, which the server then has as if
 * they were its own: one set of limits, time-outs, certificates and rules for requests. (fastify would open a second server with none of ours.)
 */
import { createServer, type Server } from 'node:net'

/** @param bound readies each listener before it takes connections. @returns those that listen; an address that this machine does not have is passed over. */
export async function listenAlso(
  server: Server,
  addresses: readonly string[],
  port: number,
  bound: (listener: Server) => void,
  failed: (address: string, error: Error) => void,
): Promise<Server[]> {
  const listeners: Server[] = []
  for (const host of addresses) {
    // As node:http makes its own.
    const listener = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => server.emit('connection', socket))
    bound(listener)
    const error = await new Promise<NodeJS.ErrnoException | undefined>((resolve) => {
      listener.once('error', resolve).listen({ host, port }, () => resolve(undefined))
    })
    if (error === undefined) listeners.push(listener)
    else if (error.code !== 'EADDRNOTAVAIL' && error.code !== 'EAFNOSUPPORT') failed(host, error)
  }
  return listeners
}

/** Takes no more connections, and waits for those that are open. */
export async function closeAll(listeners: readonly Server[]): Promise<void> {
  await Promise.all(listeners.map((listener) => new Promise((resolve) => listener.close(resolve))))
}
