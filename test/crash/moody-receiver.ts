/** A receiver of webhooks that is slow, refuses, hangs or cuts the line at times, and notes what it has acknowledged. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { setTimeout } from 'node:timers/promises'
import { Webhook } from 'standardwebhooks'
import type { Random } from 'svcdb/lib/random'

export const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
/** Longer than the server's time limit of an attempt. */
const HANG_MS = 1500

export class MoodyReceiver {
  /** Acknowledged, by the event's id: `webhook-id` and body. */
  readonly taken = new Map<string, { message: string; body: string }>()
  attempts = 0
  /** Takes all from now on. */
  calm = false
  private readonly random: Random
  private readonly server: Server
  private problem: Error | undefined

  constructor(random: Random) {
    this.random = random
    this.server = createServer((request, response) => {
      this.receive(request, response).catch((error) => {
        response.destroy()
        // A caller that is killed cuts the line.
        if (error.code !== 'ECONNRESET') this.problem ??= error
      })
    })
  }

  /** @returns its address. */
  async listen(): Promise<string> {
    this.server.listen(0, '127.0.0.1')
    await once(this.server, 'listening')
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}/hook`
  }

  /** @throws Error with what was wrong of what came. */
  check(): void {
    if (this.problem !== undefined) throw this.problem
  }

  async close(): Promise<void> {
    this.server.closeAllConnections()
    this.server.close()
    await once(this.server, 'close')
  }

  private async receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = (await buffer(request)).toString()
    this.attempts++
    const mood = this.calm ? 1 : this.random()
    if (mood < 0.1) return void response.writeHead(503).end()
    if (mood < 0.15) return void response.destroy()
    if (mood < 0.17) return void response.writeHead(429, { 'retry-after': '0' }).end()
    if (mood < 0.175) await setTimeout(HANG_MS)
    else if (mood < 0.25) await setTimeout(this.random() * 100)
    new Webhook(SECRET).verify(body, request.headers as Record<string, string>)
    const { id } = JSON.parse(body) as { id: string }
    const message = String(request.headers['webhook-id'])
    const known = this.taken.get(id)
    if (known !== undefined && (known.message !== message || known.body !== body))
      throw new Error(`event ${id} came as ${known.message} ${known.body}, then as ${message} ${body}`)
    this.taken.set(id, { message, body })
    response.writeHead(204).end()
  }
}
