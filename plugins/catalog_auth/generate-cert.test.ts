import { type ExecFileException, execFile } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { existsSync, mkdtempSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { run } from 'svcdb/testkit'
import t from 'tap'
import { bearer, bootCatalog } from './testing.ts'

const scratch = () => mkdtempSync(join(tmpdir(), 'svc-cert-'))

async function generate(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  const text = { out: '', err: '' }
  const io = { env: {}, out: (s: string) => void (text.out += s), err: (s: string) => void (text.err += s), stopSignal: new Promise<string>(() => {}) }
  return { code: await run(['generate-cert', ...args], io), ...text }
}

/** Resolves to the status. */
function ask(url: string, options: object): Promise<number> {
  return new Promise((resolve, reject) => {
    const call = request(url, { agent: false, headers: bearer('red'), ...options }, (answer) =>
      answer.resume().on('end', () => resolve(answer.statusCode ?? 0)),
    )
    call.on('error', reject).end()
  })
}

function curl(...args: string[]): Promise<{ error: ExecFileException | null; stdout: string }> {
  return new Promise((resolve) => execFile('curl', args, (error, stdout) => resolve({ error, stdout })))
}

t.test('a server answers with what it made, and clients that trust it believe it', async (t) => {
  const folder = join(scratch(), 'tls')
  const { code, out } = await generate('--common-name', 'svc.example', '--out', folder, '--san', 'DB.internal, 10.0.0.7,*.example.org', '--days', '30')
  t.equal(code, 0)
  const [cert, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')]
  t.match(out, `[tls]\ncert = "${cert}"\nkey = "${key}"\n`)
  t.equal(statSync(key).mode & 0o777, 0o600)
  const parsed = new X509Certificate(readFileSync(cert))
  t.equal(parsed.subject, 'CN=svc.example')
  t.equal(parsed.ca, false)
  t.equal(parsed.publicKey.asymmetricKeyDetails?.namedCurve, 'prime256v1')
  for (const name of ['svc.example', 'localhost', 'db.internal', 'a.example.org']) t.ok(parsed.checkHost(name), name)
  for (const address of ['127.0.0.1', '::1', '10.0.0.7']) t.ok(parsed.checkIP(address), address)
  t.notOk(parsed.checkHost('elsewhere.example'))
  const days = (Date.parse(parsed.validTo) - Date.now()) / 86_400_000
  t.ok(days > 29.9 && days <= 30, String(days))

  const node = await bootCatalog({ config: { tls: { cert, key } } })
  t.teardown(() => node.stop())
  const ca = readFileSync(cert)
  t.equal(await ask(`${node.url}/v1/namespaces`, { ca }), 200)
  t.equal(await ask(`${node.url}/v1/namespaces`, { ca, servername: 'svc.example' }), 200)
  await t.rejects(ask(`${node.url}/v1/namespaces`, {}), /self-signed certificate/)
  // Asynchronously: this process has to answer.
  const { error, stdout } = await curl('-sS', '--cacert', cert, '-H', 'Authorization: Bearer red', `${node.url}/v1/namespaces`)
  if (error?.code === 'ENOENT') return t.comment('there is no curl')
  t.same(error, null)
  t.same(JSON.parse(stdout), { namespaces: [['red']], 'next-page-token': null })
})

t.test('nothing that is there is replaced, and no half of a pair is left', async (t) => {
  for (const [present, absent] of [
    ['cert.pem', 'key.pem'],
    ['key.pem', 'cert.pem'],
  ]) {
    const folder = scratch()
    writeFileSync(join(folder, present), 'mine')
    const { code, err } = await generate('--common-name', 'x', '--out', folder)
    t.equal(code, 1)
    t.match(err, `cannot write "${join(folder, present)}": it exists`)
    t.equal(readFileSync(join(folder, present), 'utf8'), 'mine')
    t.notOk(existsSync(join(folder, absent)))
  }
  const folder = scratch()
  symlinkSync(join(folder, 'elsewhere'), join(folder, 'key.pem'))
  t.equal((await generate('--common-name', 'x', '--out', folder)).code, 1)
  t.notOk(existsSync(join(folder, 'elsewhere')), 'a link is not followed')
})

t.test('names', async (t) => {
  const made = async (name: string, ...more: string[]) => {
    const folder = scratch()
    const { code, err } = await generate('--common-name', name, '--out', folder, ...more)
    return code === 0 ? new X509Certificate(readFileSync(join(folder, 'cert.pem'))) : err
  }
  const odd = (await made('Acme, Inc. + "svc"=ü')) as X509Certificate
  t.match(odd.toLegacyObject().subject, { CN: 'Acme, Inc. + "svc"=ü' }, 'a common name is one, whatever is in it')
  t.same(odd.subjectAltName, 'DNS:localhost, IP Address:127.0.0.1, IP Address:0:0:0:0:0:0:0:1')
  t.ok(((await made('192.0.2.9')) as X509Certificate).checkIP('192.0.2.9'))
  t.not(odd.serialNumber, ((await made('x')) as X509Certificate).serialNumber)
  for (const name of ['', ' ', 'x'.repeat(65), 'a\nb', 'a\u0000b']) t.match(await made(name), /cannot use common name/, JSON.stringify(name))
  for (const san of ['a b', 'http://x', '1.2.3', '1.2.3.4.5', '-x', 'a..b', 'x/y', '*'])
    t.match(await made('x', `--san=${san}`), /neither a host name nor an IP address/, san)
  for (const days of ['0', '-1', '3651', 'x', '1.5', '']) t.match(await made('x', `--days=${days}`), /it is a whole number from 1 to 3650/, days)
  t.match((await generate('--out', scratch())).err, /give --common-name NAME/)
  t.match((await generate('--common-name', 'x', 'more')).err, /takes flags only/)
  t.match((await generate('--common-nam', 'x')).err, /did you mean/)
  t.match((await generate('--common-name', 'x', '--out', '/dev/null/x')).err, /ENOTDIR/)
})
