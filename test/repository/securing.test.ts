/** Steps 1 to 3 of the guide for locking down, done as it says: its commands, its configs, a key that is made as it says and let in. */
import { execFile } from 'node:child_process'
import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { fences, section } from '../support/markdown.ts'
import { MAIN, runServer } from '../support/server.ts'
import { read } from '../support/tree.ts'

const guide = read('docs/guides/securing.md')
const sh = promisify(execFile)
const blocks = (heading: string, language: string): string[] =>
  fences(section(guide, heading) ?? '').flatMap((fence) => (fence.language === language ? [fence.text] : []))

t.test('keys, TLS and namespaces, as the guide has them', { timeout: 300_000 }, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-securing-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const config = join(folder, 'svc.toml')
  const run = (text: string, url = '') =>
    sh('bash', ['-ec', `svc() { "${process.execPath}" "${MAIN}" "$@"; }\n${text.replaceAll(/https?:\/\/localhost:8086/g, url)}`], { cwd: folder })
  /** The lines of a block of the guide for a section, without the list of plugins. */
  const own = (toml: string) => toml.replace(/^plugins = .*\n/, '')
  const [makeKey, ask, makeAnother] = blocks('1 Keys', 'sh')
  const [plugins] = blocks('3 Namespaces', 'toml')[0].split('\n')

  // What it prints goes into the config; the key in the guide is nobody's.
  const { stderr } = await run(makeKey)
  writeFileSync(config, `${plugins}\n${stderr}`)
  const open = await runServer(config)
  const asked = (text: string, url: string) => run(text.replaceAll('curl ', `curl -sS -o /dev/null -w '%{http_code} ' `), url)
  t.equal((await asked(ask, open.url)).stdout.trim(), '401 200')
  t.match(JSON.parse((await run(makeAnother.replace('curl ', 'curl -sS '), open.url)).stdout), { name: 'telegraf', key: /^svc_/ })
  t.equal(await open.stop(), 0)

  await run(blocks('2 TLS', 'sh')[0])
  appendFileSync(config, own(blocks('2 TLS', 'toml')[0]) + own(blocks('3 Namespaces', 'toml')[0]))
  const closed = await runServer(config)
  t.teardown(() => closed.stop())
  t.match(closed.url, /^https:/)
  const url = closed.url.replace('127.0.0.1', 'localhost')
  t.equal((await asked('curl --cacert tls/cert.pem https://localhost:8086/health', url)).stdout.trim(), '200')
  const made = await run(blocks('3 Namespaces', 'sh')[0].replaceAll('curl ', 'curl -sS '), url)
  const [namespace, gateway] = made.stdout.split(/(?<=\})(?=\{)/).map((text) => JSON.parse(text))
  t.match(namespace, { name: 'plant', quota: { max_series_count: 50_000, max_ingestion_rate: 20_000 } })
  writeFileSync(join(folder, 'gateway.key'), gateway.key)
  const write = (headers: string) =>
    `curl --cacert tls/cert.pem -H "Authorization: Bearer $(cat gateway.key)" ${headers} --data-binary 'm v=1' https://localhost:8086/write`
  t.equal((await asked(write(''), url)).stdout.trim(), '204', 'it need not name its namespace')
  t.equal((await asked(write('-H "X-Namespace: default"'), url)).stdout.trim(), '403')
  t.equal(readFileSync(join(folder, 'admin.key'), 'utf8').split('\n').length, 2, 'the key alone stands on standard output')
})
