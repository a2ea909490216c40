/** A way to a server of the tests on which statements and answers can be kept waiting, or lost. */
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Forwarding {
  /** The answer is not given back: the connection ends. */
  lost?: boolean
  /** The answer is given back when this has settled. */
  until?: Promise<unknown>
}

/** @param pass calls `forward` for what the server is to see. `statement` is the text of the statement, without the blocks of an insert. */
export async function proxyTo(
  server: string,
  pass: (statement: string, forward: (options?: Forwarding) => void, from: IncomingMessage, to: ServerResponse) => void,
): Promise<{ url: string; close(): void }> {
  const proxy = createServer((from, to) => {
    const parts: Buffer[] = []
    from.on('data', (part: Buffer) => parts.push(part))
    from.on('end', () => {
      const body = Buffer.concat(parts)
      const query = new URL(from.url ?? '/', 'http://localhost').searchParams.get('query')
      const forward = ({ lost = false, until = Promise.resolve() }: Forwarding = {}): void => {
        const onward = request(`${server}${from.url}`, { method: from.method, headers: from.headers }, (answer) => {
          if (lost) return void answer.resume().on('end', () => from.socket.destroy())
          void until.then(() => {
            to.writeHead(answer.statusCode ?? 500, answer.headers)
            answer.pipe(to)
          })
        })
        onward.on('error', () => from.socket.destroy())
        onward.end(body)
      }
      pass(query ?? body.toString(), forward, from, to)
    })
  })
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`,
    close: () => {
      proxy.close()
      proxy.closeAllConnections()
    },
  }
}

/** Holds the first statement that is asked for next and matches, before or after the server has it. */
export class Held {
  private wanted: RegExp | undefined
  private answer = false
  private readonly begun = Promise.withResolvers<void>()
  private readonly ended = Promise.withResolvers<void>()

  /** @param answer true: the server answers at once, and its answer waits. */
  next(statement: RegExp, answer = false): void {
    this.wanted = statement
    this.answer = answer
  }

  /** When the statement is held. */
  get reached(): Promise<void> {
    return this.begun.promise
  }

  release(): void {
    this.ended.resolve()
  }

  pass(statement: string, forward: (options?: Forwarding) => void): void {
    if (this.wanted?.test(statement) !== true) return forward()
    this.wanted = undefined
    if (!this.answer) {
      void this.ended.promise.then(() => forward())
      return this.begun.resolve()
    }
    forward({ until: this.ended.promise })
    // The server runs one statement after the other: what is asked from now on comes behind it.
    this.begun.resolve()
  }
}
