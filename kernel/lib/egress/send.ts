import type { ClientRequest, IncomingMessage } from 'node:http'
import type { TLSSocket } from 'node:tls'
import type { AddressGuard } from './address-guard.ts'

/**
 * Sends a request that was made and not ended. Nothing of it is written before the peer is known to be one of the addresses that the guard lets through.
 * @param writing called when that is known, right before the first byte.
 * @returns the head of the answer. @throws Error of the connection, Forbidden; also for a 101, and for a connection that is closed without an answer.
 */
export function sendGuarded(request: ClientRequest, body: Buffer | undefined, guard: AddressGuard, writing?: () => void): Promise<IncomingMessage> {
  const answered = new Promise<IncomingMessage>((resolve, reject) => {
    request.on('response', resolve)
    request.on('upgrade', (_, socket) => {
      socket.destroy()
      reject(new Error('it answered 101 Switching Protocols'))
    })
    // Also what comes after the answer: nobody else hears of it.
    request.on('error', reject)
    request.on('close', () => reject(new Error('it closed the connection without an answer')))
  })
  request.on('socket', (socket) => {
    const secure = (socket as TLSSocket).encrypted === true
    socket.once(secure ? 'secureConnect' : 'connect', () => {
      try {
        guard.requireAllowed(socket.remoteAddress ?? '')
        writing?.()
        request.end(body)
      } catch (error) {
        request.destroy(error as Error)
      }
    })
  })
  return answered
}
