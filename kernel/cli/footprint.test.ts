/** Whose process is to be small, and how it is started then. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { isSmall, smallStart } from './footprint.ts'

const folder = mkdtempSync(join(tmpdir(), 'svc-footprint-'))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))

function config(text: string): string {
  const file = join(folder, 'svc.toml')
  writeFileSync(file, text)
  return file
}

t.test('small are collectors at the edge, and who says so', async (t) => {
  const cases: [toml: string, small: boolean][] = [
    ['', false],
    ['[database]\nengine = "forward"', true],
    ['[database]\nengine = "embedded"', false],
    ['[server]\nfootprint = "small"', true],
    ['[server]\nfootprint = "usual"\n[database]\nengine = "forward"', false],
    ['[server]\nfootprint = "auto"\n[database]\nengine = "forward"', true],
    ['server = 1', false],
    ['not toml', false],
  ]
  for (const [toml, small] of cases) t.equal(isSmall(['serve', '--config', config(toml)], {}), small, toml)
})

t.test('commands that run no node stay as they are', async (t) => {
  const file = config('[database]\nengine = "forward"')
  t.equal(isSmall(['check', '--config', file], {}), false)
  t.equal(isSmall(['--config', file], {}), true, 'serve is the default')
  t.equal(isSmall(['serve'], { SVC_CONFIG: file }), true)
  t.equal(isSmall(['serve'], {}), false)
  t.equal(isSmall(['serve', '--config', join(folder, 'missing.toml')], {}), false)
})

t.test('what somebody has set stays, and once is enough', async (t) => {
  const first = smallStart({
    options: ['--trace-gc'],
    env: { PATH: '/bin', NODE_OPTIONS: '--enable-source-maps --max_semi_space_size=8', MALLOC_ARENA_MAX: '2' },
  })
  t.ok(first)
  t.equal(first?.options[0], '--trace-gc')
  t.notOk(first?.options.some((option) => option.startsWith('--max-semi-space-size')))
  t.match(first?.env, { PATH: '/bin', MALLOC_ARENA_MAX: '2', UV_THREADPOOL_SIZE: '4' })
  t.equal(smallStart(first as NonNullable<typeof first>), undefined)
})

t.test(
  'a node at the edge replaces itself: the same process, which stops as others do',
  { skip: !existsSync('/proc/self/cmdline') && 'it is read from /proc' },
  async (t) => {
    for (const footprint of ['auto', 'usual']) {
      const file = config(
        `plugins = ["line_protocol"]\n[server]\nhttp_addr = "127.0.0.1:0"\nfootprint = "${footprint}"\n[database]\nengine = "forward"\ndata_dir = "${join(folder, footprint)}"\n[[database.forward.upstream]]\nurl = "http://127.0.0.1:9"\n`,
      )
      const child = spawn(process.execPath, [join(import.meta.dirname, '../main.ts'), 'serve', '--config', file], { env: { PATH: process.env.PATH } })
      const exited = once(child, 'exit')
      let output = ''
      await new Promise((resolve) => child.stderr.on('data', (text) => (output += text).includes('ready url=') && resolve(undefined)))
      const words = readFileSync(`/proc/${child.pid}/cmdline`, 'utf8').split('\0')
      const environment = readFileSync(`/proc/${child.pid}/environ`, 'utf8').split('\0')
      const small = footprint === 'auto'
      t.equal(words.includes('--max-semi-space-size=1'), small)
      t.equal(environment.includes('MALLOC_ARENA_MAX=1'), small)
      t.same(words.slice(-4, -1), ['serve', '--config', file])
      t.notMatch(output, /Warning/)
      child.kill('SIGTERM')
      t.same(await exited, [0, null])
    }
  },
)
