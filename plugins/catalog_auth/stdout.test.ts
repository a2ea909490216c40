import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { bare, MAIN } from '../../test/support/server.ts'
import { until } from '../../test/support/until.ts'

const testing = fileURLToPath(new URL('./testing.ts', import.meta.url))

interface Server {
  child: ChildProcessByStdio<null, Readable, Readable>
  url: string
  out(): string
  stop(): Promise<unknown>
}

async function serve(): Promise<Server> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-catalog-'))
  writeFileSync(join(folder, 'callers.ts'), `export { authPlugin as default } from ${JSON.stringify(testing)}`)
  const names = `import { Directory, directoryPlugin } from ${JSON.stringify(testing)}\nexport default directoryPlugin(new Directory(['red']))`
  writeFileSync(join(folder, 'directory.ts'), names)
  const plugins = `plugins = ["./directory.ts", "./callers.ts", "catalog_auth"]`
  writeFileSync(join(folder, 'svc.toml'), `${plugins}\n[server]\nhttp_addr = "127.0.0.1:0"\nlog_level = "debug"\n`)
  const child = spawn('env', bare({}, process.execPath, MAIN, 'serve', '--config', join(folder, 'svc.toml')), { stdio: ['ignore', 'pipe', 'pipe'] })
  const exited = once(child, 'close')
  let out = ''
  let err = ''
  child.stdout.on('data', (chunk) => (out += chunk))
  const url = await new Promise<string>((resolve, reject) => {
    child.stderr.on('data', (chunk) => {
      err += chunk
      const found = /ready url=(\S+)/.exec(err)
      if (found?.[1] !== undefined) resolve(found[1])
    })
    exited.then(() => reject(new Error(err)))
  })
  return {
    child,
    url,
    out: () => out,
    async stop() {
      child.kill('SIGTERM')
      return exited
    },
  }
}

const list = (url: string, token: string) => fetch(`${url}/v1/namespaces`, { headers: { authorization: `Bearer ${token}` } })

t.test('the log is the standard output, and nothing else is there', async (t) => {
  const server = await serve()
  t.equal((await list(server.url, 'red')).status, 200)
  t.equal((await list(server.url, 'wrong')).status, 401)
  await server.stop()
  const lines = server.out().trimEnd().split('\n')
  t.match(
    lines.map((line) => JSON.parse(line)),
    [
      { event: 'auth_success', principal: 'ann' },
      { event: 'auth_failure', reason: 'invalid_token' },
    ],
  )
  t.equal(lines.length, 2)
})

t.test('once nobody reads it, calls are refused and the server lives', async (t) => {
  const server = await serve()
  t.teardown(() => server.stop())
  server.child.stdout.destroy()
  await until('a call is refused', async () => {
    const { status } = await list(server.url, 'red')
    if (status !== 200 && status !== 500) throw new Error(`a call answers ${status}`)
    return status === 500
  })
  t.equal((await fetch(`${server.url}/health`)).status, 200)
})
