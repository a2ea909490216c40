/** The real process: arguments, exit codes, signals, sockets. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'

const main = new URL('./main.ts', import.meta.url).pathname

interface Run {
  child: ChildProcessWithoutNullStreams
  out: () => string
  err: () => string
  exit: Promise<number | null>
}

function start(args: string[], env: Record<string, string> = {}): Run {
  const child = spawn(process.execPath, [main, ...args], { env: { PATH: process.env.PATH, ...env } })
  const text = { out: '', err: '' }
  child.stdout.on('data', (chunk) => (text.out += chunk))
  child.stderr.on('data', (chunk) => (text.err += chunk))
  return { child, out: () => text.out, err: () => text.err, exit: new Promise((resolve) => child.on('close', resolve)) }
}

async function until<T>(look: () => T | undefined | false | null): Promise<T> {
  for (let i = 0; i < 1000; i++) {
    const found = look()
    if (found) return found
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
  throw new Error('it did not happen within 10 s')
}

/** A node with a route that answers after a while. */
function config(delayMs: number, shutdownSecs: number): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-main-'))
  const slow = `
    import { definePlugin } from '${new URL('./index.ts', import.meta.url).href}'
    export default definePlugin({ id: 'slow', summary: 's', stability: 'beta', setup(svc) {
      svc.http.get('/slow', async () => { await new Promise((resolve) => setTimeout(resolve, ${delayMs})); return { done: true } })
    } })`
  writeFileSync(join(folder, 'slow.ts'), slow)
  writeFileSync(
    join(folder, 'svc.toml'),
    `plugins = ["./slow.ts"]\n[server]\nhttp_addr = "127.0.0.1:0"\nshutdown_timeout_secs = ${shutdownSecs}\nlog_level = "debug"\n`,
  )
  return join(folder, 'svc.toml')
}

const urlOf = (run: Run) => until(() => /ready url=(\S+)/.exec(run.err())?.[1])

t.test('SIGTERM: stops accepting, finishes what is in flight, exits 0', async (t) => {
  const run = start(['serve', '--config', config(400, 10)])
  const url = await urlOf(run)
  const answer = fetch(`${url}/slow`)
  await new Promise((resolve) => setTimeout(resolve, 150))
  run.child.kill('SIGTERM')
  await until(() => run.err().includes('stopping'))
  await new Promise((resolve) => setTimeout(resolve, 50))
  await t.rejects(fetch(`${url}/health`), 'new connections are refused')
  t.same(await (await answer).json(), { done: true })
  t.equal(await run.exit, 0)
  t.match(run.err(), /stopped\n$/)
})

t.test('requests that outlast shutdown_timeout_secs are cut', async (t) => {
  const run = start(['serve', '--config', config(60_000, 0.2)])
  const answer = fetch(`${await urlOf(run)}/slow`)
  answer.catch(() => {})
  await new Promise((resolve) => setTimeout(resolve, 100))
  run.child.kill('SIGINT')
  await t.rejects(answer)
  t.equal(await run.exit, 0)
})

t.test('a second signal exits at once', async (t) => {
  const run = start(['serve', '--config', config(60_000, 60)])
  fetch(`${await urlOf(run)}/slow`).catch(() => {})
  await new Promise((resolve) => setTimeout(resolve, 100))
  run.child.kill('SIGTERM')
  await until(() => run.err().includes('stopping'))
  run.child.kill('SIGTERM')
  t.equal(await run.exit, 1)
})

t.test('a refused config prints each problem on a line of its own and exits 1', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-main-'))
  writeFileSync(join(folder, 'svc.toml'), '[server]\nhttp_adr = "x"\n[databse]\n')
  const run = start(['serve', '-c', join(folder, 'svc.toml')])
  t.equal(await run.exit, 1)
  const lines = run.err().trim().split('\n')
  t.match(lines, [/^svc: .*did you mean "http_addr"/, /^svc: .*"\[databse\]"/])
  t.equal(lines.length, 2)
})

t.test('a taken port exits 1, naming the address', async (t) => {
  const first = start(['serve', '--bind', '127.0.0.1:0'])
  const { host } = new URL(await urlOf(first))
  const second = start(['--bind', host])
  t.equal(await second.exit, 1)
  t.match(second.err(), new RegExp(`svc: cannot start the HTTP listener: cannot listen on server.http_addr "${host}": .*EADDRINUSE`))
  first.child.kill('SIGTERM')
  t.equal(await first.exit, 0)
})

t.test('check says what would run, and warns of listeners open to the world', async (t) => {
  const open = start(['check', '--config', config(0, 1), '--bind', '0.0.0.0:8086'])
  t.equal(await open.exit, 0)
  t.match(open.out(), /plugins: slow[\s\S]*http_addr = "0.0.0.0:8086"[\s\S]*warning: .*no selected plugin authenticates[\s\S]*warning: .*without TLS/)
  const local = start(['check'], { SVC_CONFIG: config(0, 1) })
  t.equal(await local.exit, 0)
  t.notMatch(local.out(), 'warning')
  const bad = start(['check', '--bind', 'nowhere'])
  t.equal(await bad.exit, 1)
  t.match(bad.err(), /svc: .*"nowhere": write host:port/)
})

t.test('help, version, plugins, and what is mistyped', async (t) => {
  const help = start(['help'])
  t.equal(await help.exit, 0)
  t.match(help.out(), /--data-dir VALUE +database.data_dir \(SVC_DATA_DIR\)/)
  const version = start(['--version'])
  t.equal(await version.exit, 0)
  t.match(version.out(), /^\d+\.\d+\.\d+\n$/)
  const plugins = start(['plugins'])
  t.equal(await plugins.exit, 0)
  t.match(plugins.out(), /^line_protocol \(stable\): /m)
  const flag = start(['serve', '--bnd', 'x'])
  t.equal(await flag.exit, 1)
  t.match(flag.err(), 'did you mean "bind"?')
  const command = start(['chek'])
  t.equal(await command.exit, 1)
  t.match(command.err(), 'did you mean "check"?')
})
