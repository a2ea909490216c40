/** A store that speaks as much of S3 as the plugin uses, for its tests. It does not check signatures; test/interop asks a server that does. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export class FakeBucket {
  /** Names, the bucket's in front, and contents. */
  readonly objects = new Map<string, Buffer>()
  /** The next `left` requests are answered with the status; 0 = never. */
  fail = { status: 500, left: 0 }
  /** Refuses requests with a condition so. */
  unconditional: { status: number; code: string } | undefined
  /** Answers in place of what follows, if it is there. */
  instead: ((request: IncomingMessage, response: ServerResponse) => void) | undefined
  lastAuthorization = ''
  url = ''
  private readonly server: Server

  private constructor() {
    this.server = createServer((request, response) => void this.answer(request, response))
  }

  static async start(): Promise<FakeBucket> {
    const fake = new FakeBucket()
    await new Promise<void>((resolve) => fake.server.listen(0, '127.0.0.1', resolve))
    fake.url = `http://127.0.0.1:${(fake.server.address() as AddressInfo).port}`
    return fake
  }

  async stop(): Promise<void> {
    this.server.closeAllConnections()
    await new Promise((resolve) => this.server.close(resolve))
  }

  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const parts: Buffer[] = []
    for await (const part of request) parts.push(part as Buffer)
    this.lastAuthorization = request.headers.authorization ?? ''
    if (this.instead !== undefined) return this.instead(request, response)
    if (this.fail.left > 0) {
      this.fail.left--
      if (this.fail.status === 0) return
      response.writeHead(this.fail.status).end('<?xml version="1.0"?><Error><Code>Refused</Code><Message>told so</Message></Error>')
      return
    }
    const name = decodeURIComponent((request.url ?? '').slice(1))
    const found = this.objects.get(name)
    if (request.method === 'PUT') {
      if (request.headers['if-none-match'] === '*' && (this.unconditional !== undefined || found !== undefined)) {
        const { status, code } = this.unconditional ?? { status: 412, code: 'PreconditionFailed' }
        response.writeHead(status).end(`<Error><Code>${code}</Code></Error>`)
        return
      }
      this.objects.set(name, Buffer.concat(parts))
      response.writeHead(request.headers['content-length'] === undefined ? 411 : 200).end()
    } else if (request.method === 'DELETE') {
      this.objects.delete(name)
      response.writeHead(204).end()
    } else if (found === undefined) response.writeHead(404).end('<Error><Code>NoSuchKey</Code></Error>')
    else response.writeHead(200, { 'content-length': found.length }).end(request.method === 'HEAD' ? undefined : found)
  }
}
