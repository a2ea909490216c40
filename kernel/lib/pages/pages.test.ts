import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import { definePlugin } from '../../plugin.ts'
import { boot } from '../../testkit/index.ts'
import { seeded } from '../random/index.ts'
import { PageFolder } from './index.ts'

const SECRET = 'nobody may read this'
const place = realpathSync(mkdtempSync(join(tmpdir(), 'svc-pages-')))
t.teardown(() => rmSync(place, { recursive: true, force: true }))
const root = join(place, 'site')
const files: Record<string, string> = {
  'site/index.html': '<!doctype html><title>home</title>',
  'site/app.js': 'console.log(1)',
  'site/assets/app.3f2a.css': 'body {}',
  'site/assets/größe 1.svg': '<svg/>',
  'site/data.unknown': 'bytes',
  'site/empty/readme.txt': 'no index here',
  'site/docs/index.html': '<title>docs</title>',
  'site/large.txt': 'x'.repeat(2000),
  'site/.env': SECRET,
  'site/.git/config': SECRET,
  'site/assets/.hidden.js': SECRET,
  'site-of-others/index.html': SECRET,
  'outside/secret.txt': SECRET,
  'secret.txt': SECRET,
}
for (const [file, text] of Object.entries(files)) {
  mkdirSync(join(place, file, '..'), { recursive: true })
  writeFileSync(join(place, file), text)
}
const links: Record<string, string> = {
  'inner.js': 'app.js',
  'leaves.txt': '../outside/secret.txt',
  'absolute.txt': join(place, 'secret.txt'),
  out: '../outside',
  sibling: '../site-of-others',
  'shown.txt': '.env',
  repository: '.git',
  loop: 'loop',
}
for (const [name, target] of Object.entries(links)) symlinkSync(target, join(root, name))

const node = await boot({
  plugins: [
    definePlugin({
      id: 'console',
      summary: 'Pages',
      stability: 'experimental',
      setup(svc) {
        const cacheControl = (file: string) => (file.startsWith('assets/') ? 'public, max-age=31536000, immutable' : 'no-cache')
        svc.http.pages('/console', pathToFileURL(root), { action: 'public', maxFileBytes: 1000, cacheControl })
        svc.http.pages('/app/v2', root, { fallback: 'index.html', headers: { 'content-security-policy': "default-src 'none'", 'referrer-policy': '' } })
        svc.http.get('/console/api', async () => ({ api: true }))
      },
    }),
    definePlugin({
      id: 'locked',
      summary: 'Knows one token',
      stability: 'experimental',
      setup(svc) {
        svc.auth.authenticator((given) =>
          given.header('authorization') === 'Bearer ours' ? { principal: 'us', method: 'test', claims: {}, namespaces: [], admin: true } : undefined,
        )
      },
    }),
  ],
})
t.teardown(() => node.stop())
const get = (path: string, headers: Record<string, string> = {}, method = 'GET') =>
  fetch(`${node.url}${path}`, { method, redirect: 'manual', headers: { authorization: 'Bearer ours', ...headers } })

t.test('files come with their type and the headers that keep a page to itself', async (t) => {
  const answer = await get('/console/app.js')
  t.equal(answer.status, 200)
  t.equal(await answer.text(), files['site/app.js'])
  t.match(Object.fromEntries(answer.headers), {
    'content-type': 'text/javascript; charset=utf-8',
    'content-security-policy': "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'same-origin',
    'cross-origin-opener-policy': 'same-origin',
    'cache-control': 'no-cache',
  })
  const types = {
    '/console/': 'text/html; charset=utf-8',
    '/console/data.unknown': 'application/octet-stream',
    '/console/assets/gr%C3%B6%C3%9Fe%201.svg?v=1': 'image/svg+xml; charset=utf-8',
  }
  for (const [path, type] of Object.entries(types)) t.equal((await get(path)).headers.get('content-type'), type, path)
  t.equal((await get('/console/assets/app.3f2a.css')).headers.get('cache-control'), 'public, max-age=31536000, immutable')
  t.equal(await (await get('/console/inner.js')).text(), files['site/app.js'], 'a link within the folder')
  t.same(await (await get('/console/api')).json(), { api: true }, 'routes go before files')
})

t.test('a folder is its index.html, under its path with a slash', async (t) => {
  for (const [path, location] of Object.entries({ '/console': './console/', '/console?a=1': './console/?a=1', '/console/docs': './docs/' })) {
    const answer = await get(path)
    t.equal(answer.status, 308, path)
    t.equal(answer.headers.get('location'), location)
  }
  t.equal(await (await get('/console/docs/')).text(), files['site/docs/index.html'])
  for (const path of ['/console/empty', '/console/empty/', '/console/app.js/']) t.equal((await get(path)).status, 404, path)
})

t.test('HEAD, ETag and methods', async (t) => {
  const whole = await get('/console/app.js')
  const etag = whole.headers.get('etag') as string
  const head = await get('/console/app.js', {}, 'HEAD')
  t.equal(head.status, 200)
  t.equal(await head.text(), '')
  for (const name of ['etag', 'content-length', 'content-type', 'content-security-policy']) t.equal(head.headers.get(name), whole.headers.get(name), name)
  for (const given of [etag, `"x", ${etag}`, etag.slice(2), '*']) {
    const answer = await get('/console/app.js', { 'if-none-match': given })
    t.equal(answer.status, 304, given)
    t.equal(await answer.text(), '')
    t.equal(answer.headers.get('etag'), etag)
    t.ok(answer.headers.get('content-security-policy'))
  }
  writeFileSync(join(root, 'app.js'), 'console.log(2)')
  const changed = await get('/console/app.js', { 'if-none-match': etag })
  t.equal(changed.status, 200)
  t.equal(await changed.text(), 'console.log(2)')
  writeFileSync(join(root, 'app.js'), files['site/app.js'])
  const posted = await get('/console/app.js', {}, 'POST')
  t.equal(posted.status, 405)
  t.equal(posted.headers.get('allow'), 'GET, HEAD')
})

t.test('an application that reads the path itself', async (t) => {
  for (const path of ['/app/v2/', '/app/v2/settings/users', '/app/v2/settings/']) {
    const answer = await get(path)
    t.equal(answer.status, 200, path)
    t.equal(await answer.text(), files['site/index.html'])
    t.equal(answer.headers.get('content-security-policy'), "default-src 'none'")
    t.equal(answer.headers.get('referrer-policy'), null)
  }
  for (const path of ['/app/v2/assets/gone.js', '/app/v2/.env', '/app/v2/%2e%2e%2fsecret']) t.equal((await get(path)).status, 404, path)
})

t.test('pages are read with credentials, unless they are public', async (t) => {
  t.equal((await fetch(`${node.url}/console/app.js`)).status, 200)
  t.equal((await fetch(`${node.url}/app/v2/app.js`)).status, 401)
  t.equal((await get('/app/v2/app.js')).status, 200)
})

t.test('what is missing, hidden, too large or outside is one error in one shape', async (t) => {
  for (const path of ['/console/gone.html', '/console/.env', '/console/large.txt', '/console/leaves.txt', '/console/loop']) {
    const answer = await get(path)
    t.equal(answer.status, 404)
    t.same(await answer.json(), { error: `cannot find "${path}": there is no such page`, code: 'NOT_FOUND' })
  }
})

/** @returns the answer to a request line with the target as it is: clients would tidy it. */
function raw(target: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(Number(new URL(node.url).port), '127.0.0.1')
    const parts: Buffer[] = []
    socket.on('data', (part) => parts.push(part))
    socket.on('error', reject)
    socket.on('close', () => resolve(Buffer.concat(parts).toString('latin1')))
    socket.write(`GET ${target} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ours\r\nConnection: close\r\n\r\n`, 'latin1')
  })
}

t.test('no path leaves the folder', async (t) => {
  const seed = Number(process.env.SEED ?? (Math.random() * 2 ** 32) >>> 0)
  t.comment(`SEED=${seed}`)
  const random = seeded(seed)
  const pick = <T>(of: readonly T[]): T => of[Math.floor(random() * of.length)]
  const names = [...Object.keys(files).flatMap((file) => file.split('/')), ...Object.keys(links), ...place.split('/'), 'etc', 'passwd', 'con', 'aux.js']
  const up = [
    '..',
    '..',
    '..',
    '.',
    '',
    '...',
    '..\\',
    '..;',
    '.. ',
    '%2e%2e',
    '%2E.',
    '.%2e',
    '%252e%252e',
    '%c0%ae%c0%ae',
    '%uff0e',
    '..%00',
    '..%2f..',
    '..%5c..',
    '\\..\\..',
  ]
  const glue = ['/', '/', '/', '/', '//', '%2f', '%2F', '\\', '%5c', '%252f', '/./', ';/', '%00', '?', '#', '%c0%af']
  const ends = ['', '', '', '', '/', '%00', '%00.js', '.', '%20', '::$DATA', '%3a$DATA', '~1', '?x=../..', '#/..', '%zz', '\x01']
  const encoded = (text: string): string =>
    [...text].map((c) => (random() < 0.15 && c < '\x7f' ? `%${c.charCodeAt(0).toString(16).padStart(2, '0')}` : c === ' ' ? '%20' : c)).join('')
  const target = (): string => {
    let path = pick([
      '/console/',
      '/app/v2/',
      '/console',
      '/app/v2/assets/',
      '/console/out/',
      '/con%73ole/',
      'http://127.0.0.1/console/',
      '//console/',
      '/console/C:/',
      `/console/${place}/`,
    ])
    for (let length = 1 + Math.floor(random() * 6); length > 0; length--) path += (random() < 0.5 ? pick(up) : encoded(pick(names))) + pick(glue)
    return path + encoded(pick(names)) + pick(ends)
  }
  const known = [
    '/console/../secret.txt',
    '/console/%2e%2e/secret.txt',
    '/console/..%2fsecret.txt',
    '/console/..%5csecret.txt',
    '/console//etc/passwd',
    `/console/${join(place, 'secret.txt')}`,
  ]
  known.push(
    '/console/out/secret.txt',
    '/console/leaves.txt',
    '/console/absolute.txt',
    '/console/sibling/',
    '/console/shown.txt',
    '/console/repository/config',
    '/console/%2eenv',
  )
  known.push('/console/assets/.hidden.js', '/console/../site-of-others/index.html', '/console/docs/../.env', '/console/.env%00.js', '/console/.git/config')
  for (const path of known) {
    const answer = await raw(path)
    t.match(answer, /^HTTP\/1\.1 404 /, path)
    t.match(answer, '"code":"NOT_FOUND"', path)
  }
  const counts: Record<string, number> = {}
  for (let n = 0; n < 600; n++) {
    const path = target()
    const answer = await raw(path)
    const [, status] = /^HTTP\/1\.1 (\d+) /.exec(answer) ?? []
    counts[status ?? 'none'] = (counts[status ?? 'none'] ?? 0) + 1
    if (!/^(?:200|308|400|401|404)$/.test(status ?? '') || answer.includes(SECRET) || answer.includes('root:'))
      t.fail(`${JSON.stringify(path)}: ${answer.slice(0, 300)}`)
    if (status?.startsWith('4') && !/"code":"\w+"/.test(answer)) t.fail(`${JSON.stringify(path)}: ${answer.slice(0, 600)}`)
  }
  t.comment(counts)
  t.ok(counts[404] > 100)
})

t.test('what cannot be served is refused when the plugin is set up or starts', async (t) => {
  const starts = (path: string, directory: string, options = {}) =>
    boot({ plugins: [definePlugin({ id: 'bad', summary: 's', stability: 'experimental', setup: (svc) => svc.http.pages(path, directory, options) })] })
  await t.rejects(starts('/', root), /cannot serve pages at "\/": a path is/)
  await t.rejects(starts('/x/', root), /cannot serve pages at "\/x\/"/)
  await t.rejects(starts('/x', 'pages'), /cannot serve pages from "pages": the path is relative/)
  await t.rejects(starts('/x', join(place, 'gone')), /cannot serve pages from ".*gone": ENOENT/)
  await t.rejects(starts('/x', join(place, 'secret.txt')), /it is no folder/)
  await t.rejects(starts('/x', root, { fallback: '../secret.txt' }), /cannot serve pages with fallback/)
  await t.rejects(starts('/x', root, { fallback: 'gone.html' }), /it has no file "gone.html"/)
  await t.rejects(starts('/x', root, { maxFileBytes: 0 }), /maxFileBytes 0 is no positive/)
  await t.rejects(new PageFolder(root).answer('/x/', 2), { code: 'INTERNAL_ERROR' })
})
