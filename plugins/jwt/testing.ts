/** For tests: keys, tokens, an issuer over HTTP that can be made to fail, and a node whose clock can be put forward. */
import { createHmac, generateKeyPairSync, type KeyObject, randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { SignJWT } from 'jose'
import { AUTH_RANK, type CallContext, type Clock, definePlugin, type Plugin, tokenOf } from 'svcdb'
import { boot, systemClock, type TestNode } from 'svcdb/testkit'
import type { Test } from 'tap'
import jwt from './index.ts'

export const SECRET = '0123456789abcdef'.repeat(4)

export interface TestKey {
  kid: string
  alg: string
  publicKey: KeyObject
  privateKey: KeyObject
  /** The public key as PEM. */
  pem: string
}

export const ASYMMETRIC = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'EdDSA']

export function makeKey(alg: string, kid: string = randomUUID()): TestKey {
  const { publicKey, privateKey } = pairOf(alg)
  return { kid, alg, publicKey, privateKey, pem: publicKey.export({ type: 'spki', format: 'pem' }) as string }
}

function pairOf(alg: string): { publicKey: KeyObject; privateKey: KeyObject } {
  if (alg === 'ES256') return generateKeyPairSync('ec', { namedCurve: 'P-256' })
  if (alg === 'ES384') return generateKeyPairSync('ec', { namedCurve: 'P-384' })
  if (alg === 'EdDSA') return generateKeyPairSync('ed25519')
  return generateKeyPairSync('rsa', { modulusLength: 2048 })
}

export function jwkOf({ kid, alg, publicKey }: TestKey, more: Record<string, unknown> = {}): Record<string, unknown> {
  return { ...publicKey.export({ format: 'jwk' }), kid, alg, use: 'sig', ...more }
}

/** Claims of a token that is good for an hour. */
export function claimsOf(more: Record<string, unknown> = {}): Record<string, unknown> {
  return { sub: 'ann', exp: Math.floor(Date.now() / 1000) + 3600, ...more }
}

/** A signed token. @param header in place of the key's. */
export function sign(key: TestKey | string, claims: Record<string, unknown> = claimsOf(), header: Record<string, unknown> = {}): Promise<string> {
  const [own, secret] = typeof key === 'string' ? [{ alg: 'HS256' }, Buffer.from(key)] : [{ alg: key.alg, kid: key.kid }, key.privateKey]
  return new SignJWT(claims).setProtectedHeader({ ...own, ...header } as { alg: string }).sign(secret)
}

const part = (value: unknown): string => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url')

/** A token with any header and body, signed by HMAC whatever the header says, or with the signature that is given. */
export function forge(header: unknown, claims: unknown, { secret = '', signature }: { secret?: string | Buffer; signature?: string } = {}): string {
  const input = `${part(header)}.${part(claims)}`
  return `${input}.${signature ?? createHmac('sha256', secret).update(input).digest('base64url')}`
}

type Answer = (request: IncomingMessage, response: ServerResponse) => void

export class TestIssuer {
  /** Of the key set. */
  fetches = 0
  discoveries = 0
  keys: unknown[] = []
  /** In place of the key set. */
  answer: Answer | undefined
  /** In place of the discovery document; gets the right one. */
  document: (right: Record<string, unknown>) => unknown = (right) => right
  private server: Server | undefined
  private port = 0

  get url(): string {
    return `http://127.0.0.1:${this.port}`
  }

  get jwksUrl(): string {
    return `${this.url}/keys`
  }

  async open(): Promise<void> {
    const server = createServer((request, response) => this.handle(request, response))
    this.server = server
    await new Promise<void>((resolve) => server.listen(this.port, '127.0.0.1', resolve))
    this.port = (server.address() as AddressInfo).port
  }

  async close(): Promise<void> {
    const { server } = this
    this.server = undefined
    server?.closeAllConnections()
    await new Promise<void>((resolve) => (server === undefined ? resolve() : server.close(() => resolve())))
  }

  private handle(request: IncomingMessage, response: ServerResponse): void {
    if (request.url === '/.well-known/openid-configuration') {
      this.discoveries++
      response.end(JSON.stringify(this.document({ issuer: this.url, jwks_uri: this.jwksUrl })))
    } else if (request.url === '/keys') {
      this.fetches++
      if (this.answer !== undefined) this.answer(request, response)
      else response.setHeader('content-type', 'application/json').end(JSON.stringify({ keys: this.keys }))
    } else {
      response.writeHead(404).end()
    }
  }
}

export async function startIssuer(t: Test, ...keys: unknown[]): Promise<TestIssuer> {
  const issuer = new TestIssuer()
  issuer.keys = keys
  await issuer.open()
  t.teardown(() => issuer.close())
  return issuer
}

/** The system's clock, put forward. */
export class TestClock implements Clock {
  private ahead = 0
  readonly now = (): number => systemClock.now() + this.ahead
  readonly nowNanos = (): bigint => systemClock.nowNanos() + BigInt(this.ahead) * 1_000_000n
  readonly monotonic = (): number => systemClock.monotonic() + this.ahead
  readonly after = systemClock.after

  forward(seconds: number): void {
    this.ahead += seconds * 1000
  }
}

/** Takes one key, as api_keys takes many, and says who calls. */
export const companion: Plugin = definePlugin({
  id: 'companion',
  summary: 'A route and a key for the tests',
  stability: 'experimental',
  setup(svc) {
    svc.auth.authenticator((credentials) => {
      const token = tokenOf(credentials)
      return token === 'key' || token === 'a.key.too' ? { principal: token, method: 'api_key', claims: {}, namespaces: [], admin: false } : undefined
    }, AUTH_RANK.key)
    svc.http.get('/who', async (request) => svc.context(request))
  },
})

export interface Who extends CallContext {
  status: number
  error: string
  code: string
}

interface JwtNode {
  node: TestNode
  clock: TestClock
  lines: Record<string, unknown>[]
  who(token: string | undefined, headers?: Record<string, string>): Promise<Who>
  /** The value of a metric by its name and labels, as they are written. */
  metric(name: string): Promise<number | undefined>
}

export interface NodeOptions {
  auth?: Record<string, unknown>
  server?: Record<string, unknown>
  others?: Plugin[]
}

/** @param section of [auth.jwt]. */
export async function startNode(t: Test, section: Record<string, unknown> | undefined, { auth, server, others = [] }: NodeOptions = {}): Promise<JwtNode> {
  const clock = new TestClock()
  const lines: Record<string, unknown>[] = []
  const config = { auth: { ...(section === undefined ? {} : { jwt: section }), ...auth }, server: { metrics_require_auth: false, ...server } }
  const node = await boot({ plugins: [jwt, companion, ...others], config, clock, log: (line) => lines.push(JSON.parse(line)) })
  t.teardown(() => node.stop())
  return {
    node,
    clock,
    lines,
    async who(token, headers = {}) {
      const authorization = token === undefined || 'authorization' in headers ? {} : { authorization: `Bearer ${token}` }
      const answer = await node.inject({ url: '/who', headers: { ...authorization, ...headers } })
      return { status: answer.statusCode, ...answer.json() }
    },
    async metric(name) {
      const line = (await node.inject('/metrics')).body.split('\n').find((text) => text.startsWith(`${name} `))
      return line === undefined ? undefined : Number(line.split(' ')[1])
    },
  }
}
