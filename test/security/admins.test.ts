/** Who of the admins may do what: each route of theirs, with each kind of credential, as the guide's table has it. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { boot, builtinPlugins } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { SECRET, sign } from '../../plugins/jwt/testing.ts'
import { ROOT } from '../support/tree.ts'
import { httpRoutes, urlOf } from './routes.ts'
import { LET_ALONE } from './sections.ts'

const key = (letter: string) => `svc_${letter.repeat(43)}`
const exp = Math.floor(Date.now() / 1000) + 600
const token = (claims: object) => sign(SECRET, { sub: 'token', exp, ...claims })

const folder = await mkdtemp(join(tmpdir(), 'svc-admins-'))
await writeFile(join(folder, 'all.cedar'), 'permit (principal, action, resource);')
t.teardown(() => rm(folder, { recursive: true, force: true }))

/** Routes of the guide's table: "GET, POST /a" and whether an admin of names gets there. */
async function table(): Promise<Map<string, boolean>> {
  const guide = await readFile(join(ROOT, 'docs/guides/securing.md'), 'utf8')
  const rows = guide.slice(guide.indexOf("| Admins' routes |")).split('\n\n', 1)[0]
  return new Map(
    [...rows.matchAll(/^\| ([A-Z, ]+) (\/\S+) \| yes \| (.+) \|$/gm)].flatMap(([, methods, path, names]) =>
      methods.split(', ').map((method): [string, boolean] => [`${method} ${path.replaceAll(/\{(\w+)\}/g, ':$1')}`, names !== 'no']),
    ),
  )
}

async function started(t: Test, multiTenancy: boolean) {
  const node = await boot({
    plugins: builtinPlugins().filter((id) => !['mtls', 'cold_archive'].includes(id)),
    storage: 'embedded',
    config: {
      server: { multi_tenancy: multiTenancy },
      auth: {
        api_keys: [
          { name: 'node', key: key('n'), admin: true, namespaces: ['*'] },
          { name: 'names', key: key('r'), admin: true, namespaces: ['red'] },
          { name: 'user', key: key('u'), namespaces: ['red'] },
        ],
        jwt: { secret: SECRET },
      },
      authorization: { policy_dir: folder },
      ...LET_ALONE,
      grpc: { addr: '127.0.0.1:0' },
      flight_sql: { addr: '127.0.0.1:0' },
      otlp_grpc: { addr: '127.0.0.1:0' },
    },
  })
  t.teardown(() => node.stop())
  /** What a call is answered, without a body: who may not, is refused before anything else is looked at. */
  const refusal = async (credential: string, method: string, path: string): Promise<string | undefined> => {
    const { statusCode, body } = await node.inject({
      method: method as 'GET',
      url: urlOf(path, 'red'),
      headers: { authorization: `Bearer ${credential}` },
    })
    if (statusCode === 401) throw new Error(`${method} ${path}: ${body}`)
    return statusCode === 403 ? body : undefined
  }
  return { node, routes: httpRoutes(node.app), refusal }
}

t.test('under multi_tenancy: the node for admins of all namespaces, and the rest for those of some', async (t) => {
  const { routes, refusal } = await started(t, true)
  const written = await table()
  const found = new Set<string>()
  const [node, names, user] = [
    [key('n'), await token({ admin: true, namespaces: '*' })],
    [key('r'), await token({ admin: true, namespaces: ['red'] })],
    [key('u'), await token({ namespaces: ['red'] })],
  ]
  for (const { method, path } of routes) {
    const route = `${method} ${path}`
    const refused = await refusal(user[0], method, path)
    if (refused === undefined) continue
    // An answer to HEAD has no text.
    const says = (text: RegExp) => (method === 'HEAD' ? /^$/ : text)
    if (method !== 'HEAD') found.add(route)
    for (const credential of user) t.match(await refusal(credential, method, path), says(/an admin credential is needed/), `${route}: a user`)
    for (const credential of node) t.equal(await refusal(credential, method, path), undefined, `${route}: an admin of all`)
    const reached = written.get(route.replace(/^HEAD/, 'GET'))
    for (const credential of names)
      if (reached) t.equal(await refusal(credential, method, path), undefined, `${route}: an admin of names`)
      else t.match(await refusal(credential, method, path), says(/an admin credential for all namespaces is needed/), `${route}: an admin of names`)
  }
  t.same([...found].sort(), [...written.keys()].sort(), "the guide's table has them all")
})

t.test('without multi_tenancy every admin administers the node', async (t) => {
  const { routes, refusal } = await started(t, false)
  for (const { method, path } of routes)
    for (const credential of [key('n'), key('r'), await token({ admin: true }), await token({ admin: true, namespaces: ['red'] })])
      t.equal(await refusal(credential, method, path), undefined, `${method} ${path}`)
})
