import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parse } from 'smol-toml'
import { run, temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { keyText, start } from './testing.ts'

async function svc(args: string[], env: Record<string, string> = {}): Promise<{ code: number; out: string; err: string }> {
  const text = { out: '', err: '' }
  const io = { env, out: (s: string) => void (text.out += s), err: (s: string) => void (text.err += s), stopSignal: Promise.resolve('SIGTERM') }
  return { code: await run(['generate-key', ...args], io), ...text }
}

const KEY = /^svc_[\w-]{43}\n$/

t.test('prints the key, and what to put into the config', async (t) => {
  // biome-ignore lint/suspicious/noTemplateCurlyInString: a placeholder of the config language
  const answer = await svc(['--name', ' ci "1" ${X} ', '--tenant', 'red', '--roles', 'a, b,', '--namespaces', 'blue', '--admin', '--expires-days', '7'])
  t.equal(answer.code, 0)
  t.match(answer.out, KEY)
  const key = answer.out.trim()
  t.notOk(answer.err.includes(key))
  const { auth } = parse(answer.err) as unknown as { auth: { api_keys: Record<string, unknown>[] } }
  const [entry] = auth.api_keys
  t.match(entry, { tenant: 'red', roles: ['a', 'b'], namespaces: ['blue'], admin: true, key_prefix: key.slice(4, 12) })
  t.ok(Math.abs((entry.expires_at as number) - Date.now() / 1000 - 7 * 86_400) < 100)
  t.equal(entry.name, 'ci "1" $${X}', 'which the config reads as the name')
  const node = await start({ keys: [entry] })
  t.teardown(() => node.stop())
  t.match(await node.who(key, { 'x-namespace': 'red' }), {
    status: 200,
    namespaces: ['blue', 'red'],
    roles: ['a', 'b'],
    admin: true,
    claims: { tenant_id: 'red' },
  })
})

t.test('writes into the store, where a running node finds it', async (t) => {
  const dir = temporaryFolder(t)
  const file = join(dir, 'svc.toml')
  const ADMIN = keyText()
  const toml = (more = '') =>
    `plugins = ["api_keys", "line_protocol"]\n[auth]\npersistent_api_keys = true\napi_key_prefix = "acme_"\n${more}[[auth.api_keys]]\nname = "root"\nkey = "${ADMIN}"\nadmin = true\n[database]\ndata_dir = "${dir}"\n`
  await writeFile(file, toml())
  const node = await start({ keys: [{ name: 'root', key: ADMIN, admin: true }], dir, auth: { persistent_api_keys: true } })
  t.teardown(() => node.stop())
  t.equal((await node.who(keyText())).status, 401)
  const { code, out, err } = await svc(['--name', 'late', '--namespaces', 'red', '-c', file])
  t.equal(code, 0)
  t.match(out, /^acme_[\w-]{43}\n$/)
  t.match(err, /^key "late" is kept in ".*auth\/keys"; a server that runs takes it up by itself\n$/)
  t.match(await node.who(out.trim()), { status: 200, principal: 'late', namespaces: ['red'] })
  for (const name of ['late', 'root'])
    t.match(await svc(['--name', name, '-c', file]), {
      code: 1,
      out: '',
      err: new RegExp(`^svc: cannot make key "${name}": .*(there is|has) one of this name; choose another\n$`),
    })

  await writeFile(file, toml('encryption_key_env = "MASTER"\n'))
  t.match(await svc(['--name', 'x', '-c', file]), { code: 1, out: '', err: /environment variable MASTER .* is not set/ })
  await writeFile(file, `${await readFile(file, 'utf8')}[server]\nmulti_tenancy = true\n`)
  t.match(await svc(['--name', 'x', '-c', file]), { code: 1, out: '', err: /multi_tenancy needs namespaces; give --namespaces or --tenant, or --admin/ })
})

t.test('with a config that keeps no keys it says what to put there', async (t) => {
  const file = join(temporaryFolder(t), 'svc.toml')
  await writeFile(file, 'plugins = ["api_keys"]\n')
  t.match(await svc(['--name', 'x', '-c', file]), {
    code: 0,
    out: KEY,
    err: /^# Put this into the config and start again:\n\[\[auth\.api_keys\]\]\nname = "x"\nkey = "\$argon2id\$/,
  })
  await writeFile(file, 'plugins = ["api_keys"]\n[auth]\npersistent_api_keys = true\n[storage]\nobject_store_url = "memory://"\n')
  t.match(await svc(['--name', 'x', '-c', file]), { code: 0, out: KEY, err: /memory:\/\/, where no key can be put/ })
  await writeFile(file, 'plugins = ["api_keys"]\n[auth]\npersistent_api_keys = true\n[storage]\nobject_store_url = "s3://x"\n')
  t.match(await svc(['--name', 'x', '-c', file]), { code: 1, out: '', err: /its scheme "s3" is not supported/ })
})

t.test('what is refused', async (t) => {
  const refused = async (args: string[], error: RegExp) => t.match(await svc(args), { code: 1, out: '', err: error }, args.join(' '))
  await refused([], /it needs a name; give --name/)
  await refused(['--name', ' '], /it has 0 characters/)
  await refused(['--name', 'x', '--namespaces', 'Red'], /namespace "Red"/)
  await refused(['--name', 'x', '--tenant', ''], /namespace ""/)
  await refused(['--name', 'x', '--roles', 'r'.repeat(129)], /128/)
  await refused(
    ['--name', 'x', '--roles', Array.from({ length: 101 }, (_, i) => `r${i}`).join(',')],
    /cannot make key "x": roles must not have more than 100 items/,
  )
  for (const days of ['0', '-1', 'x', '1.5', '99999', '1e3']) await refused(['--name', 'x', `--expires-days=${days}`], /expires-days/)
  await refused(['--name', 'x', 'more'], /cannot use argument "more"/)
  await refused(['--nam', 'x'], /did you mean "--name"/)
})
