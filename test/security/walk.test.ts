/** No route of any plugin answers without credentials unless it is exempt; none that is for admins answers to others. On all listeners. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client, credentials, Metadata } from '@grpc/grpc-js'
import { boot, builtinPlugins } from 'svcdb/testkit'
import t from 'tap'
import { OPERATIONS } from '../../plugins/operator_api/routes/index.ts'
import { grpcMethods, httpRoutes, urlOf } from './routes.ts'
import { LET_ALONE } from './sections.ts'

const ADMIN = `svc_${'a'.repeat(43)}`
const READER = `svc_${'r'.repeat(43)}`
/** Of the operator API, which has credentials of its own. */
const OPERATOR = 'o'.repeat(43)
const isOperators = (path: string) => path.startsWith('/api/v1/plane/')
/** What needs no credentials, and nothing else. DoPut and Handshake ask for them themselves, once they know what is asked of them. */
const EXEMPT = ['/', '/settings', '/health', '/healthz', '/ready', '/readyz', '/ping', '/-/healthy', '/-/ready']
const EXEMPT_METHODS = [/^\/grpc\.health\.v1\.Health\//, /^\/grpc\.reflection\./]
const UNAUTHENTICATED = 16
const PERMISSION_DENIED = 7
const UNIMPLEMENTED = 12
/** Certificates need TLS, the archive a place of its own. */
const LEFT_OUT = ['mtls', 'cold_archive']

interface JsonSchema {
  type?: string
  properties?: object
  additionalProperties?: boolean
}

const folder = await mkdtemp(join(tmpdir(), 'svc-walk-'))
await writeFile(join(folder, 'all.cedar'), 'permit (principal, action, resource);')
await writeFile(join(folder, 'tokens.json'), JSON.stringify([{ token: OPERATOR, actor: 'olaf' }]))
const lines: string[] = []
const node = await boot({
  plugins: builtinPlugins().filter((id) => !LEFT_OUT.includes(id)),
  storage: 'embedded',
  log: (line) => lines.push(line),
  config: {
    auth: {
      api_keys: [
        { name: 'admin', key: ADMIN, admin: true },
        { name: 'reader', key: READER, namespaces: ['default'] },
      ],
      // Each wrong key costs a hash: none is refused for being one of many.
      api_key: { max_failures: 0 },
      jwt: { secret: 'a secret of more than thirty-two bytes' },
    },
    authorization: { policy_dir: folder },
    triggers: {},
    agent_plane: {},
    operator_api: { tokens_file: join(folder, 'tokens.json'), policy: join(folder, 'all.cedar'), addr: '127.0.0.1:0' },
    ...LET_ALONE,
    grpc: { addr: '127.0.0.1:0', reflection: true },
    flight_sql: { addr: '127.0.0.1:0' },
    otlp_grpc: { addr: '127.0.0.1:0' },
  },
})
t.teardown(async () => {
  await node.stop()
  await rm(folder, { recursive: true, force: true })
})

const routes = httpRoutes(node.app)
const concrete = (path: string) => urlOf(path, 'x')
const basic = (password: string) => `Basic ${Buffer.from(`user:${password}`).toString('base64')}`

t.test('HTTP: each route without credentials, and with some that are wrong', async (t) => {
  t.ok(routes.length > 100)
  for (const path of EXEMPT)
    t.ok(
      routes.some((route) => route.path === path),
      `there is ${path}`,
    )
  const wrong = [undefined, `Bearer ${ADMIN.slice(0, -1)}b`, 'Bearer', 'Bearer a.b.c', basic(OPERATOR), `Digest ${ADMIN}`, ADMIN]
  for (const { method, path } of routes) {
    const others = isOperators(path) ? [ADMIN, READER, OPERATOR.slice(1)] : []
    for (const authorization of [...wrong, ...others.map((token) => `Bearer ${token}`)]) {
      const answer = await node.inject({ method: method as 'GET', url: concrete(path), headers: authorization === undefined ? {} : { authorization } })
      if (EXEMPT.includes(path)) {
        t.ok([200, 204].includes(answer.statusCode), `${method} ${path} is exempt`)
        continue
      }
      t.equal(answer.statusCode, 401, `${method} ${path} with ${authorization}`)
      t.ok(answer.headers['www-authenticate'], 'says how to authenticate')
    }
  }
})

t.test('HTTP: what is for admins is for admins', async (t) => {
  const isAdmins = (path: string) => /^\/api\/v1\/(admin\/|prom\/admin\/|namespaces)/.test(path) && !path.endsWith('/tsdb/delete_series')
  const admins = routes.filter(({ path }) => isAdmins(path))
  t.ok(admins.length >= 8)
  for (const { method, path } of routes) {
    const authorization = `Bearer ${isOperators(path) ? OPERATOR : READER}`
    const answer = await node.inject({ method: method as 'GET', url: concrete(path), headers: { authorization } })
    if (isAdmins(path)) t.equal(answer.statusCode, 403, `${method} ${path}`)
    else t.notOk([401, 403].includes(answer.statusCode), `${method} ${path} lets the reader in: ${answer.statusCode}`)
  }
})

t.test('HTTP: the operator API on a listener of its own', async (t) => {
  t.equal(routes.filter(({ method, path }) => isOperators(path) && method !== 'HEAD').length, OPERATIONS.length)
  for (const { method, path } of OPERATIONS) {
    const ask = async (authorization: string | undefined) => {
      const headers = authorization === undefined ? undefined : { authorization }
      const answer = await fetch(`http://127.0.0.1:${portOf('operator_api')}${path.replace(/\{\w+\}/, 'x')}`, { method, ...(headers && { headers }) })
      await answer.text()
      return answer.status
    }
    for (const wrong of [undefined, basic('nobody'), ...[ADMIN, READER, OPERATOR.slice(1)].map((token) => `Bearer ${token}`)])
      t.equal(await ask(wrong), 401, `${method} ${path} with ${wrong}`)
    const known = await ask(`Bearer ${OPERATOR}`)
    t.notOk([401, 403].includes(known), `${method} ${path} lets the operator in: ${known}`)
  }
})

t.test('HTTP: each way to send a key', async (t) => {
  for (const authorization of [`Bearer ${READER}`, `bearer ${READER}`, `Token ${READER}`, basic(READER)])
    t.equal((await node.inject({ url: '/api/v1/measurements', headers: { authorization } })).statusCode, 200, authorization.slice(0, 6))
  const other = { authorization: `Bearer ${READER}`, 'x-namespace': 'other' }
  t.equal((await node.inject({ url: '/api/v1/measurements', headers: other })).statusCode, 403, 'and no other namespace')
  for (const url of [`/api/v1/measurements?token=${READER}`, `/metrics?token=${ADMIN}`])
    t.equal((await node.inject({ url })).statusCode, 401, 'a token in the query is for the catalog only')
})

const portOf = (plugin: string): number => {
  const found = lines
    .map((line) => JSON.parse(line) as { port?: number; plugin?: string; name?: string })
    .find((line) => line.port !== undefined && JSON.stringify(line).includes(`"${plugin}"`))
  if (found?.port === undefined) throw new Error(`no line of ${plugin} tells its port`)
  return found.port
}

/** Sends an empty message to a method of any kind. @returns the status. */
function status(client: Client, path: string, metadata: Metadata): Promise<number> {
  const asIs = (bytes: Buffer): Buffer => bytes
  return new Promise((resolve) => {
    const call = client.makeBidiStreamRequest(path, asIs, asIs, metadata)
    call.on('data', () => {})
    call.on('error', () => {}) // told by the status
    call.on('status', ({ code }) => resolve(code))
    call.write(Buffer.alloc(0))
    call.end()
    // Watch never ends by itself.
    setTimeout(() => call.cancel(), 2000).unref()
  })
}

function withToken(token: string | undefined): Metadata {
  const metadata = new Metadata()
  if (token !== undefined) metadata.set('authorization', `Bearer ${token}`)
  return metadata
}

t.test('gRPC and Flight SQL: each method', async (t) => {
  const methods = grpcMethods()
  t.ok(methods.grpc.length >= 12)
  for (const [plugin, paths] of [
    ['grpc', methods.grpc],
    ['flight_sql', methods.flight],
  ] as const) {
    const client = new Client(`127.0.0.1:${portOf(plugin)}`, credentials.createInsecure())
    t.teardown(() => client.close())
    for (const path of paths) {
      if (EXEMPT_METHODS.some((exempt) => exempt.test(path))) continue
      const expected = path.endsWith('/DoExchange') ? UNIMPLEMENTED : UNAUTHENTICATED
      t.equal(await status(client, path, withToken(undefined)), expected, `${path} without credentials`)
      t.equal(await status(client, path, withToken('svc_wrong')), expected, `${path} with a wrong key`)
      const known = await status(client, path, withToken(READER))
      if (!path.endsWith('/Handshake')) t.notOk([UNAUTHENTICATED, PERMISSION_DENIED].includes(known), `${path} lets the reader in: ${known}`)
    }
  }
})

t.test('no route that takes JSON takes members that it does not know', async (t) => {
  const { paths } = (await node.inject({ url: '/api/v1/openapi.json', headers: { authorization: `Bearer ${ADMIN}` } })).json()
  let bodies = 0
  for (const [path, methods] of Object.entries(
    paths as Record<string, Record<string, { requestBody?: { content: Record<string, { schema?: JsonSchema }> } }>>,
  )) {
    for (const [method, { requestBody }] of Object.entries(methods)) {
      const schema = requestBody?.content['application/json']?.schema
      if (schema?.type !== 'object' || schema.properties === undefined) continue
      bodies++
      t.equal(schema.additionalProperties, false, `${method} ${path}`)
    }
  }
  t.ok(bodies > 10, `${bodies} bodies`)
  const answer = await node.inject({
    method: 'PUT',
    url: '/api/v1/admin/log-level',
    headers: { authorization: `Bearer ${ADMIN}` },
    payload: { level: 'info', x: 1 },
  })
  t.match(answer.json(), { code: 'INVALID_BODY', error: 'body.x is not a known member' })
  t.equal(answer.statusCode, 422)
})

t.test('no key that was used is in what the server has logged', async (t) => {
  const log = lines.join('\n')
  t.ok(log.length > 1000)
  for (const secret of [ADMIN, READER, OPERATOR, 'a secret of more than', 'svc_wrong', Buffer.from(`user:${READER}`).toString('base64')])
    t.notOk(log.includes(secret), secret.slice(0, 8))
})
