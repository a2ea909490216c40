/**
 * However a request is written, it is the route it reaches that is decided about, once, and for the namespace of the credential. Forms are made by a seed:
 * SEED=… makes the same ones again.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { Agent, type ClientRequest, type IncomingMessage, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Decision, definePlugin } from 'svcdb'
import { boot, builtinPlugins } from 'svcdb/testkit'
import t from 'tap'
import { httpRoutes, urlOf } from './routes.ts'
import { LET_ALONE } from './sections.ts'

const SEED = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31))
const FORMS = Number(process.env.FORMS ?? 3000)
const RED = `svc_${'r'.repeat(43)}`
const ROOT = `svc_${'a'.repeat(43)}`
/** Of the namespace blue, and nowhere else. */
const SECRET = 'blues-own-measurement'
const REFUSALS = new Set([400, 401, 403, 404, 405, 406, 413, 414, 415, 417, 422, 431, 501])

/** xorshift32. */
function random(seed: number): (below: number) => number {
  let state = seed | 0 || 1
  return (below) => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) % below
  }
}

const folder = await mkdtemp(join(tmpdir(), 'svc-forms-'))
await writeFile(
  join(folder, 'own.cedar'),
  `permit (principal == Svc::User::"red", action == Svc::Action::"Read", resource == Svc::Namespace::"red");
permit (principal == Svc::User::"root", action, resource);`,
)
/** By request id. */
const decisions = new Map<string, Decision[]>()
const arrivals = new Map<string, number>()
const recorder = definePlugin({
  id: 'recorder',
  summary: 'Keeps what was decided',
  stability: 'experimental',
  setup(svc) {
    svc.auth.limiter({ arrival: ({ requestId }) => void arrivals.set(requestId, (arrivals.get(requestId) ?? 0) + 1) })
    svc.auth.observer((decision) => {
      const { requestId } = decision.credentials
      decisions.set(requestId, [...(decisions.get(requestId) ?? []), { ...decision }])
    })
  },
})
const node = await boot({
  plugins: [...builtinPlugins().filter((id) => !['mtls', 'cold_archive'].includes(id)), recorder],
  storage: 'embedded',
  config: {
    server: { multi_tenancy: true },
    auth: {
      api_keys: [
        { name: 'root', key: ROOT, admin: true, namespaces: ['*'] },
        { name: 'red', key: RED, namespaces: ['red'] },
      ],
      api_key: { max_failures: 0 },
      jwt: { secret: 'a secret of more than thirty-two bytes' },
    },
    authorization: { policy_dir: folder },
    triggers: {},
    agent_plane: {},
    ...LET_ALONE,
    grpc: { addr: '127.0.0.1:0' },
    flight_sql: { addr: '127.0.0.1:0' },
    otlp_grpc: { addr: '127.0.0.1:0' },
  },
})
const agent = new Agent({ keepAlive: true, maxSockets: 8 })
t.teardown(async () => {
  agent.destroy()
  await node.stop()
  await rm(folder, { recursive: true, force: true })
})

const { port } = new URL(node.url)
const routes = httpRoutes(node.app).filter(({ path }) => !path.startsWith('/api/v1/plane/'))

interface Form {
  method: string
  target: string
  headers: [string, string][]
}

type Change = (form: Form, pick: (below: number) => number) => void
/** A part of the path, between slashes, written otherwise. */
const onPart =
  (change: (part: string, pick: (below: number) => number) => string): Change =>
  (form, pick) => {
    const [path, ...query] = form.target.split('?')
    const parts = path.split('/')
    const at = 1 + pick(Math.max(1, parts.length - 1))
    parts[at] = change(parts[at] ?? '', pick)
    form.target = [parts.join('/'), ...query].join('?')
  }
const onPath =
  (change: (path: string) => string): Change =>
  (form) => {
    const [path, ...query] = form.target.split('?')
    form.target = [change(path), ...query].join('?')
  }
const header =
  (name: string, ...values: string[]): Change =>
  (form, pick) =>
    form.headers.push([name, values[pick(values.length)]])
const percent = (text: string): string => [...Buffer.from(text)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('')

const CHANGES: readonly Change[] = [
  onPart((part) => percent(part)),
  onPart((part, pick) => {
    const at = pick(Math.max(1, part.length))
    return part.slice(0, at) + percent(part.slice(at, at + 1)) + part.slice(at + 1)
  }),
  onPart((part) => percent(part).toUpperCase()),
  onPart((part) => percent(percent(part))),
  onPart((part) => part.toUpperCase()),
  onPart((part) => `${part}/`),
  onPart((part) => `/${part}`),
  onPart((part) => `./${part}`),
  onPart((part) => `%2e/${part}`),
  onPart((part) => `x/../${part}`),
  onPart((part) => `x/%2e%2e/${part}`),
  onPart((part) => `x%2f..%2f${part}`),
  onPart((part) => `${part};a=b`),
  onPart((part) => `${part}%00`),
  onPart((part) => `${part}%3fa=b`),
  onPart((part) => `${part}%23a`),
  onPart((part) => `${part}%20`),
  onPart((part) => `%ef%bb%bf${part}`),
  onPart((part) => part.replace(/[a-z]/, (letter) => percent(String.fromCodePoint(0xff41 + letter.charCodeAt(0) - 97)))),
  onPart((part) => `${part}%`),
  onPart((part) => `${part}%c0%af`),
  onPart((part) => `${part}\\`),
  onPath((path) => `${path}/`),
  onPath((path) => `/${path}`),
  onPath((path) => `/health/..${path}`),
  onPath((path) => `/health/%2e%2e${path}`),
  onPath((path) => `/health;${path}`),
  onPath((path) => `${path}/../../../../health`),
  onPath((path) => path.replaceAll('/', '%2f').replace('%2f', '/')),
  onPath((path) => path.replaceAll('/', '\\').replace('\\', '/')),
  onPath((path) => `http://127.0.0.1:${port}${path}`),
  onPath((path) => `http://elsewhere.example${path}`),
  onPath((path) => `//elsewhere.example${path}`),
  ...[
    'namespace=blue',
    'namespace=red&namespace=blue',
    'db=blue',
    'org=blue&bucket=blue',
    'x-namespace=blue',
    'token=svc_wrong',
    'measurement=a&measurement=b',
    '_method=DELETE',
    '__proto__[a]=1',
  ].map(
    (more): Change =>
      (form) => {
        form.target += (form.target.includes('?') ? '&' : '?') + more
      },
  ),
  header('x-namespace', 'blue', 'red', 'RED', 'red,blue', 'blue ', '', 'default', '*', 'red\tblue'),
  header('X-NAMESPACE', 'blue'),
  header('x_namespace', 'blue'),
  header('x-http-method-override', 'GET', 'DELETE', 'POST'),
  header('x-http-method', 'GET', 'DELETE'),
  header('x-method-override', 'GET', 'DELETE'),
  header('x-original-url', '/health', '/api/v1/measurements'),
  header('x-rewrite-url', '/health', '/api/v1/measurements'),
  header('x-forwarded-prefix', '/health'),
  header('x-forwarded-host', 'elsewhere.example'),
  header('x-forwarded-for', '127.0.0.1'),
  header('forwarded', 'for=127.0.0.1;host=localhost'),
  header('connection', 'authorization', 'x-namespace'),
  header('content-type', 'application/json', 'text/plain', 'application/x-www-form-urlencoded', 'text/plain, application/json'),
  header('content-encoding', 'identity', 'gzip, gzip'),
  header('accept', '*/*', 'text/html', 'application/json;q=0'),
  (form, pick) => {
    form.method = ['GET', 'HEAD', 'OPTIONS', 'POST', 'PUT', 'DELETE', 'PATCH', 'TRACE', 'PROPFIND', 'QUERY'][pick(10)]
  },
]

/** The path of a target, as far as it is one that needs nobody. */
function plain(target: string): string {
  const path = target.split('?')[0].replace(/^http:\/\/[^/]*/, '')
  try {
    return decodeURIComponent(path)
  } catch {
    return path
  }
}

interface Answer {
  status: number
  text: string
}

function send({ method, target, headers }: Form): Promise<Answer> {
  const own = headers.flat()
  const asked: ClientRequest = request({ port, agent, method, path: target, headers: ['host', 'localhost', ...own, 'content-length', '0'] as never })
  asked.end()
  return new Promise((resolve, reject) => {
    // What is no HTTP is refused with a text, whatever the method: one that cannot be read may be any.
    asked.on('error', (error: NodeJS.ErrnoException) => (error.code?.startsWith('HPE_') ? resolve({ status: 400, text: '' }) : reject(error)))
    asked.on('response', (response: IncomingMessage) => {
      let text = JSON.stringify(response.headers)
      const status = response.statusCode as number
      // Streams have no end.
      const timer = setTimeout(() => response.destroy(), 2000)
      response.on('data', (data) => (text += data))
      response.on('error', () => {})
      response.on('close', () => {
        clearTimeout(timer)
        resolve({ status, text })
      })
    })
  })
}

t.before(async () => {
  for (const [namespace, name] of [
    ['red', 'own'],
    ['blue', SECRET],
  ]) {
    const headers = { authorization: `Bearer ${ROOT}`, 'x-namespace': namespace, 'content-type': 'text/plain' }
    const { statusCode, body } = await node.inject({ method: 'POST', url: '/write', headers, payload: `${name} v=1` })
    if (statusCode !== 204) throw new Error(body)
  }
})

/** Whoever names it himself is told that there is none, whichever way he wrote it. */
const decoded = (target: string): string => target.replaceAll(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))

t.test(`forms of seed ${SEED}`, async (t) => {
  const pick = random(SEED)
  let number = 0
  const asked = async (form: Form) => {
    const id = `form-${number++}`
    form.headers.push(['x-request-id', id])
    const answer = await send(form).catch((error: Error) => ({ status: 0, text: error.message }))
    return { ...answer, decided: (decisions.get(id) ?? []).filter(({ credentials }) => credentials.protocol !== 'internal'), arrived: arrivals.get(id) ?? 0 }
  }
  const statuses = new Map<number, number>()
  /** What the caller may do, as the plain requests have it, and what needs nobody. */
  const allowed = new Set<string>()
  const exempt = new Set<string>()
  for (const { method, path } of routes) {
    const { status, decided } = await asked({ method, target: urlOf(path, 'own'), headers: [['authorization', `Bearer ${RED}`]] })
    if (decided.length === 0 && status < 500) exempt.add(path)
    // Whose namespace it is, is a part of its path.
    if (decided[0]?.outcome === 'allow' || path === '/v1/namespaces/:namespace') allowed.add(path)
  }
  t.ok(allowed.size > 20 && allowed.size < routes.length - 20, `${allowed.size} of ${routes.length} are allowed`)
  t.same([...exempt].sort(), ['/', '/-/healthy', '/-/ready', '/health', '/healthz', '/ping', '/ready', '/readyz', '/settings'])
  for (let i = 0; i < FORMS; i++) {
    const { method, path } = routes[pick(routes.length)]
    const known = pick(4) > 0
    const form: Form = {
      method,
      target: urlOf(path, ['own', SECRET, 'blue', 'a%2fb', '..', '%2e%2e'][pick(6)]),
      headers: known ? [['authorization', `Bearer ${RED}`]] : [],
    }
    for (let changes = 1 + pick(3); changes > 0; changes--) CHANGES[pick(CHANGES.length)](form, pick)
    const { status, text, decided, arrived } = await asked(form)
    statuses.set(status, (statuses.get(status) ?? 0) + 1)
    const shown = `${i}: ${form.method} ${form.target} ${JSON.stringify(form.headers)} → ${status} ${JSON.stringify(decided.map(({ outcome, stage, action, resource }) => [outcome, stage, action, resource]))} ${text.slice(0, 300)}`
    const wrong: string[] = []
    if (decided.length > 1 || arrived > 1) wrong.push('it was decided more than once')
    if (arrived !== decided.length) wrong.push('limits and the audit log do not see the same')
    for (const { outcome, resource, context } of decided) {
      if (outcome === 'allow' && !known) wrong.push('nobody was let in')
      if (outcome === 'allow' && (context?.namespace !== 'red' || !allowed.has(resource))) wrong.push('it was let in elsewhere')
      if (outcome === 'deny' && !REFUSALS.has(status)) wrong.push('it was refused and answered')
    }
    if (decided.length === 0 && !REFUSALS.has(status) && !exempt.has(plain(form.target))) wrong.push('it was answered without a decision')
    if (text.includes(SECRET) && !decoded(form.target).includes(SECRET)) wrong.push('it tells of another namespace')
    if (status === 0 || (status >= 500 && status !== 501)) wrong.push('it is no clear answer')
    if (wrong.length > 0) t.fail(`${wrong.join(', ')}: ${shown}`)
  }
  t.comment(
    [...statuses]
      .sort(([a], [b]) => a - b)
      .map(([status, count]) => `${status}: ${count}`)
      .join(', '),
  )
  t.ok((statuses.get(200) ?? 0) > 20, 'some are answered')
})
