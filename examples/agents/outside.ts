/**
 * What the agents act on, in one program: a service that cleans hosts, a bank, a shop and a mail server. GET / shows what they have done.
 *
 *   node examples/agents/outside.ts [port]
 */
import { createServer, type Server } from 'node:http'

export interface Outside {
  /** Of hosts, in order. */
  cleanings: { host: string; older_than_days: number; key: string }[]
  /** Cents by order: what went back to its customer. */
  bank: Record<string, number>
  shop: Record<string, string>
  mails: { to: string; text: string }[]
  /** Calls that change something, repeated ones included. */
  calls: string[]
}

/** What each service wants of it. */
interface Body {
  host: string
  older_than_days: number
  order: string
  cents: number
  status: string
  to: string
  text: string
}

/** @param hold is waited for after a call was done, and before it is answered. */
export function createOutside(hold: (path: string) => Promise<void> = async () => {}): { server: Server; outside: Outside } {
  const outside: Outside = { cleanings: [], bank: {}, shop: {}, mails: [], calls: [] }
  /** Answers by Idempotency-Key. */
  const known = new Map<string, { status: number; body: unknown }>()

  const post = (path: string, key: string, body: Body): { status: number; body: unknown } => {
    const [, service, name = ''] = path.split('/')
    // This one does not look at keys: a call that is made again cleans again.
    if (service === 'cleanings') {
      outside.cleanings.push({ host: body.host, older_than_days: body.older_than_days, key })
      return { status: 200, body: { freed_bytes: 4_000_000 } }
    }
    const answered = known.get(key)
    if (answered !== undefined) return answered
    const answer = once(service, name, body)
    known.set(key, answer)
    return answer
  }
  const once = (service: string, name: string, { order, cents, status, to, text }: Body): { status: number; body: unknown } => {
    if (service === 'bank') {
      if (name === 'credit' && (outside.bank[order] ?? 0) > 0) return { status: 409, body: { error: `order ${order} was paid back before` } }
      outside.bank[order] = (outside.bank[order] ?? 0) + (name === 'credit' ? cents : -cents)
      return { status: 200, body: { receipt: `r-${known.size + 1}`, cents } }
    }
    if (service === 'shop') {
      outside.shop[decodeURIComponent(name)] = status
      return { status: 200, body: {} }
    }
    if (service !== 'mail') return { status: 404, body: { error: `there is no service "${service}"` } }
    if (!to.includes('@')) return { status: 422, body: { error: `"${to}" is no address` } }
    outside.mails.push({ to, text })
    return { status: 200, body: {} }
  }

  const server = createServer(async (request, response) => {
    const { method, url: path = '/' } = request
    const send = (status: number, body: unknown) => response.writeHead(status, { 'content-type': 'application/json' }).end(`${JSON.stringify(body)}\n`)
    if (method !== 'POST') {
      const key = /^\/cleanings\/(.+)$/.exec(path)?.[1]
      if (key === undefined) return send(200, outside)
      return outside.cleanings.some((one) => one.key === decodeURIComponent(key)) ? send(200, { freed_bytes: 4_000_000 }) : send(404, { error: 'not known' })
    }
    let text = ''
    for await (const part of request) text += part
    outside.calls.push(path)
    const { status, body } = post(path, String(request.headers['idempotency-key']), JSON.parse(text) as Body)
    console.log(status, path, text)
    await hold(path)
    send(status, body)
  })
  return { server, outside }
}

if (import.meta.main) {
  const port = Number(process.argv[2] ?? 9090)
  createOutside().server.listen(port, '127.0.0.1', () => console.log(`what is outside is at http://127.0.0.1:${port}`))
}
