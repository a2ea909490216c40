/** For tests: authorities that sign certificates by the openssl command, and a node with the plugin on all three listeners. */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { Agent, type RequestOptions, request } from 'node:https'
import { join } from 'node:path'
import { Client, credentials, Metadata, type ServiceError } from '@grpc/grpc-js'
import { type Decision, definePlugin, type Identity, type Plugin } from 'svcdb'
import { type BootOptions, boot, type TestNode } from 'svcdb/testkit'
import type { Test } from 'tap'
import flightSql from '../flight_sql/index.ts'
import grpc from '../grpc/index.ts'
import lineProtocol from '../line_protocol/index.ts'
import mtls from './index.ts'

/** For `skip`: false, or why it cannot run. */
export const noOpenssl: false | string = (() => {
  try {
    execFileSync('openssl', ['version'], { stdio: 'pipe' })
    return false
  } catch {
    return 'there is no openssl command to make certificates with'
  }
})()

export interface Issued {
  cert: Buffer
  key: Buffer
  certFile: string
  keyFile: string
}

export interface Request {
  /** Lines of the subject's section, such as `CN=ann`; default none. */
  subject?: readonly string[]
  /** Lines of subjectAltName's section, such as `DNS.1=a.example`. */
  san?: readonly string[]
  /** Default clientAuth; the empty string leaves the extension out. */
  usage?: string
  /** From now; negative = it has expired. */
  days?: number
  /** It may sign others. */
  authority?: boolean
}

let made = 0

/** Signs with a key of its own; its certificate is its own or one that `signer` signed. */
export class Authority {
  readonly folder: string
  readonly own: Issued

  constructor(folder: string, name: string, signer?: Authority) {
    this.folder = folder
    this.own = issue(folder, { subject: [`CN=${name}`], authority: true, usage: '' }, signer?.own)
  }

  issue(wanted: Request): Issued {
    return issue(this.folder, wanted, this.own)
  }
}

/** @param signer undefined = it signs itself. */
export function issue(folder: string, { subject = [], san = [], usage = 'clientAuth', days = 2, authority = false }: Request, signer?: Issued): Issued {
  const file = (kind: string): string => join(folder, `${made}.${kind}`)
  made++
  const [keyFile, certFile, requestFile, config] = [file('key'), file('pem'), file('csr'), file('cnf')]
  const extensions = [`basicConstraints=critical,CA:${authority ? 'TRUE' : 'FALSE'}`]
  if (usage !== '') extensions.push(`extendedKeyUsage=${usage}`)
  if (san.length > 0) extensions.push('subjectAltName=@san')
  const head = ['[req]', 'distinguished_name=dn', 'prompt=no', 'utf8=yes', 'string_mask=utf8only']
  // A subject without attributes cannot be asked for; what is in C is nobody's name.
  writeFileSync(config, [...head, '[dn]', 'C=DE', ...subject, '[v3]', ...extensions, '[san]', ...san, ''].join('\n'))
  const openssl = (...args: string[]) => execFileSync('openssl', args, { stdio: 'pipe' })
  openssl('req', '-new', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', keyFile, '-out', requestFile, '-config', config)
  const by = signer === undefined ? ['-signkey', keyFile] : ['-CA', signer.certFile, '-CAkey', signer.keyFile, '-CAcreateserial']
  openssl('x509', '-req', '-in', requestFile, ...by, '-days', String(days), '-extfile', config, '-extensions', 'v3', '-out', certFile)
  return { cert: readFileSync(certFile), key: readFileSync(keyFile), certFile, keyFile }
}

/** What a call came to; an empty text is one that was let in. */
export interface Outcome {
  /** `http`, `grpc`, `flight`. */
  protocol: string
  identity: Identity | undefined
  /** Code and text of the refusal. */
  error: string
}

const PROTOCOLS = ['http', 'grpc', 'flight'] as const

interface MtlsNode {
  node: TestNode
  ports: { grpc: number; flight: number }
  decisions: Decision[]
  /** One call on each listener. @param shown the client's certificate. @param headers for all of them. */
  everywhere(shown?: Pick<Issued, 'cert' | 'key'>, headers?: Record<string, string>): Promise<Outcome[]>
}

export interface StartOptions {
  authority: Authority
  /** [auth.mtls]. */
  section?: Record<string, unknown>
  /** Keys of [tls] beside the files. */
  tls?: Record<string, unknown>
  server?: Record<string, unknown>
  clock?: BootOptions['clock']
  others?: Plugin[]
}

export async function startMtls(t: Test, { authority, section = {}, tls = {}, server = {}, clock, others = [] }: StartOptions): Promise<MtlsNode> {
  const own = authority.issue({ subject: ['CN=localhost'], san: ['DNS.1=localhost', 'IP.1=127.0.0.1'], usage: 'serverAuth' })
  const decisions: Decision[] = []
  const ports = { grpc: 0, flight: 0 }
  const watch = definePlugin({
    id: 'watch',
    summary: 'Sees who calls',
    stability: 'stable',
    setup(svc) {
      svc.auth.observer((decision) => void decisions.push({ ...decision }))
      svc.http.get('/who', async (request) => svc.context(request))
    },
  })
  const log = (line: string): void => {
    const { port, name, plugin, component } = JSON.parse(line) as { port?: number; name?: string; plugin?: string; component?: string }
    if (port !== undefined) ports[[name, plugin, component].includes('grpc') ? 'grpc' : 'flight'] = port
  }
  const files = { cert: own.certFile, key: own.keyFile, client_ca: authority.own.certFile, ...tls }
  const node = await boot({
    plugins: [mtls, grpc, flightSql, lineProtocol, watch, ...others],
    storage: 'embedded',
    config: { tls: files, server, auth: { mtls: section }, grpc: { addr: '127.0.0.1:0' }, flight_sql: { addr: '127.0.0.1:0' } },
    log,
    ...(clock === undefined ? {} : { clock }),
  })
  t.teardown(() => node.stop())
  const ca = authority.own.cert
  const everywhere = async (shown?: Pick<Issued, 'cert' | 'key'>, headers: Record<string, string> = {}): Promise<Outcome[]> => {
    const outcomes: Outcome[] = []
    for (const protocol of PROTOCOLS) {
      const before = decisions.length
      const error =
        protocol === 'http' ? await overHttp(node.url, { ca, ...shown, headers }) : await overGrpc(ports[protocol], protocol, { ca, ...shown, headers })
      const [decision] = decisions.slice(before)
      outcomes.push({ protocol: decision?.credentials.protocol ?? protocol, identity: decision?.context, error })
    }
    return outcomes
  }
  return { node, ports, decisions, everywhere }
}

interface Shown {
  ca: Buffer
  cert?: Buffer
  key?: Buffer
  headers?: Record<string, string>
}

/** Answers the empty text, `CODE: text`, or why there was no answer. */
async function overHttp(url: string, { headers = {}, ...options }: Shown): Promise<string> {
  try {
    const { status, body } = await get(`${url}/who`, { agent: false, headers, ...options })
    return status === 200 ? '' : `${body.code}: ${body.error}`
  } catch (error) {
    return `no answer: ${(error as Error).message}`
  }
}

const PATHS = { grpc: '/svc.Service/ServerInfo', flight: '/arrow.flight.protocol.FlightService/ListActions' }
const CODES: Record<number, string> = { 7: 'FORBIDDEN', 16: 'UNAUTHORIZED' }

async function overGrpc(port: number, protocol: 'grpc' | 'flight', { ca, cert, key, headers = {} }: Shown): Promise<string> {
  const client = new Client(`localhost:${port}`, credentials.createSsl(ca, key ?? null, cert ?? null))
  const metadata = new Metadata()
  for (const [name, value] of Object.entries(headers)) metadata.set(name, value)
  const pass = (bytes: Buffer): Buffer => bytes
  try {
    const call = client.makeServerStreamRequest(PATHS[protocol], pass, pass, Buffer.alloc(0), metadata, { deadline: Date.now() + 20_000 })
    await call.toArray()
    return ''
  } catch (error) {
    const { code, details } = error as ServiceError
    return code === 14 ? `no answer: ${details}` : `${CODES[code] ?? code}: ${details}`
  } finally {
    client.close()
  }
}

export interface HttpAnswer {
  status: number
  // biome-ignore lint/suspicious/noExplicitAny: whatever the route answers with
  body: any
}

export function get(url: string, options: RequestOptions, payload = ''): Promise<HttpAnswer> {
  return new Promise((resolve, reject) => {
    const call = request(url, options, (answer) => {
      let text = ''
      answer.setEncoding('utf8').on('data', (part) => (text += part))
      answer.on('end', () => resolve({ status: answer.statusCode ?? 0, body: text === '' ? undefined : JSON.parse(text) }))
    })
    call.on('error', reject).end(payload)
  })
}

/** One connection after the other is kept open and used again. */
export const keepingAgent = (shown: Shown): Agent => new Agent({ keepAlive: true, maxSockets: 1, ...shown })
