/** TLS, certificates and keys between the edge and its upstream: what does not fit is said, and points wait until it does. */

import { copyFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { definePlugin, Secret } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { temporaryFolder } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { i64, lines, NOW, write } from '../conformance/points.ts'
import { check } from './config.ts'
import { edgeOf, sectionOf, upstream } from './testing.ts'

const fixture = (name: string): string => fileURLToPath(new URL(`../../test/support/certificates/${name}`, import.meta.url))
const SERVER = { cert: fixture('first.pem'), key: fixture('first.key') }
const CLIENT = { client_cert: fixture('client.pem'), client_key: fixture('client.key') }

interface Given {
  tls?: Record<string, unknown>
  /** The key that the upstream takes. */
  key?: string
}

async function pair(t: Test, { tls, key }: Given) {
  const guard = definePlugin({
    id: 'guard',
    summary: 'Takes one key',
    stability: 'experimental',
    setup(svc) {
      svc.auth.authenticator((credentials) => {
        if (key !== undefined && credentials.header('authorization') !== `Bearer ${key}`) return new SvcError('UNAUTHORIZED', 'not this key')
        return { principal: 'edge', method: 'test', claims: {}, namespaces: [], admin: false }
      })
    },
  })
  const { node, url } = await upstream(t, { plugins: [guard], config: tls === undefined ? {} : { tls } })
  const dir = temporaryFolder(t)
  const said: string[] = []
  const say = (level: string) => (given: object, text?: string) => void said.push(`${level} ${text} ${JSON.stringify(given)}`)
  const log = { debug() {}, info: say('info'), warn: say('warn'), error: say('error') }
  let n = 0
  return {
    dir,
    said,
    async start(keys: Record<string, unknown>) {
      const to = tls === undefined ? url : url.replace('http:', 'https:')
      const edge = edgeOf({ data_dir: join(dir, 'data'), forward: { upstream: [{ name: 'one', url: to, ...keys }] } }, { log })
      await edge.open()
      t.teardown(() => edge.close())
      return edge
    },
    point: () => ({ measurement: 'cpu', tags: { host: 'a' }, time: NOW + BigInt(++n), fields: { v: i64(BigInt(n)) } }),
    /** How many points are there. */
    stored: async () => (await lines(node.storage, { namespace: '', measurement: 'cpu' }).catch(() => [])).length,
    /** Resolves when that was said. */
    async until(pattern: RegExp) {
      while (!said.some((text) => pattern.test(text))) await sleep(5)
    },
  }
}

type Pair = Awaited<ReturnType<typeof pair>>

/** One point waits, and is there when `mend` was called. */
async function waits(t: Test, { start, point, stored, until, said }: Pair, keys: Record<string, unknown>, pattern: RegExp, mend: () => void): Promise<void> {
  const before = await stored()
  said.length = 0
  const edge = await start(keys)
  t.match(await write(edge, [point()], { namespace: '' }), { written: 1 }, 'the edge takes points all the same')
  await until(pattern)
  t.equal(await stored(), before)
  t.match(edge.status(), { accepting: true })
  mend()
  await edge.drained()
  t.equal(await stored(), before + 1, 'what waited has arrived')
  t.ok(
    said.some((text) => text.includes('takes points again')),
    'and it is said',
  )
  await edge.close()
}

t.test('an upstream with TLS is checked by the authority that is named', async (t) => {
  const both = await pair(t, { tls: SERVER })
  const edge = await both.start({ ca_cert: fixture('ca.pem') })
  await write(edge, [both.point()], { namespace: '' })
  await edge.drained()
  t.equal(await both.stored(), 1)
  await edge.close()

  const ca_cert = join(both.dir, 'ca.pem')
  copyFileSync(fixture('client.pem'), ca_cert)
  await waits(t, both, { ca_cert }, /^warn the upstream takes no points; they wait .*unable to (verify|get)/, () => copyFileSync(fixture('ca.pem'), ca_cert))
  rmSync(ca_cert)
  await waits(t, both, { ca_cert }, /^warn the upstream takes no points.*ENOENT.*ca\.pem/, () => copyFileSync(fixture('ca.pem'), ca_cert))

  const other = await both.start({})
  await write(other, [both.point()], { namespace: '' })
  await both.until(/(self-signed certificate|unable to)/)
  t.equal(await both.stored(), 3, "none of the system's authorities knows it")
  await other.close()
  const again = await both.start({ ca_cert })
  await again.drained()
  t.equal(await both.stored(), 4, 'nothing is lost over a restart with the right authority')
})

t.test('an upstream that asks for a certificate is shown one', async (t) => {
  const both = await pair(t, { tls: { ...SERVER, client_ca: fixture('ca.pem') } })
  const ca_cert = fixture('ca.pem')
  const bare = await both.start({ ca_cert })
  await write(bare, [both.point()], { namespace: '' })
  await both.until(/^warn the upstream takes no points; they wait .*(certificate required|no answer|closed)/)
  t.equal(await both.stored(), 0)
  await bare.close()
  const edge = await both.start({ ca_cert, ...CLIENT })
  await edge.drained()
  t.equal(await both.stored(), 1)
  await edge.close()

  const files = { client_cert: join(both.dir, 'client.pem'), client_key: join(both.dir, 'client.key') }
  const use = (name: string) => {
    copyFileSync(fixture(`${name}.pem`), files.client_cert)
    copyFileSync(fixture(`${name}.key`), files.client_key)
  }
  use('client')
  copyFileSync(fixture('first.key'), files.client_key)
  await waits(t, both, { ca_cert, ...files }, /^warn the upstream takes no points.*key values mismatch/, () => use('client'))
})

t.test('a key from a file is the one that is there now', async (t) => {
  const both = await pair(t, { key: 'right' })
  const api_key_file = join(both.dir, 'key')
  const mend = () => writeFileSync(api_key_file, 'right\n')
  const refused = /^warn the upstream refuses this node: its configuration has to be mended/
  await waits(t, both, { api_key_file }, new RegExp(`${refused.source}.*cannot read api_key_file .*ENOENT`), mend)
  writeFileSync(api_key_file, 'wrong\n')
  await waits(t, both, { api_key_file }, new RegExp(`${refused.source}.*UNAUTHORIZED`), mend)
  t.notOk(
    both.said.some((text) => /right|wrong/.test(text.replaceAll(both.dir, ''))),
    'no key is logged',
  )
})

t.test('a user in the url of an upstream is refused and not shown', async (t) => {
  const config = { forward: { upstream: [{ name: 'up', url: 'https://user:hunter22@up:4243' }] } }
  t.throws(() => check(config), { code: 'CONFIG_ERROR', message: /^(?!.*hunter22).*"up": its url has a user; leave it out/ })
})

t.test('a url that no connection can be made to is refused: points would wait for good', async (t) => {
  for (const url of ['http://up:70000', 'https://up:x', 'http://[::1', 'http://up:4243/path'])
    t.throws(() => check({ forward: { upstream: [{ name: 'up', url }] } }), {
      code: 'CONFIG_ERROR',
      message: `cannot use [[database.forward.upstream]] "up": url "${url}" is none of http://host:port or https://host:port`,
    })
})

t.test('a key that no header can carry is refused and not shown', async (t) => {
  const config = (key: string) => ({ forward: { upstream: [{ name: 'up', url: 'https://up:4243', api_key: new Secret(key) }] } })
  for (const key of ['hunter2-schl\u00fcssel', 'hunter2\u0000', 'hunter2\nhunter2'])
    t.throws(() => sectionOf(config(key)), { code: 'CONFIG_ERROR', message: /^(?!.*hunter).*"up": its api_key has characters other than printable ASCII/ })
  sectionOf(config('hunter2\n'))
})
