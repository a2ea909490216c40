/** The real process: arguments, exit codes, signals, sockets. */
import { type ChildProcessWithoutNullStreams, spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { eventually } from '../test/support/until.ts'

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

/** A node with a route that answers after a while. */
function config(delayMs: number, shutdownSecs: number): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-main-'))
  const slow = `
    import { pbkdf2 } from 'node:crypto'
    import { definePlugin } from '${new URL('./index.ts', import.meta.url).href}'
    export default definePlugin({ id: 'slow', summary: 's', stability: 'beta', setup(svc) {
      svc.http.get('/slow', async () => { svc.log.info('it is asked'); await new Promise((resolve) => setTimeout(resolve, ${delayMs})); return { done: true } })
      svc.http.get('/hang', async () => { svc.drain(() => new Promise(() => {})); return {} })
      // A native call that takes minutes, on a thread that an exit would wait for.
      svc.http.get('/stuck', async () => { pbkdf2('a', 'b', 500_000_000, 64, 'sha512', () => {}); svc.stop(() => new Promise(() => {})); return {} })
    } })`
  writeFileSync(join(folder, 'slow.ts'), slow)
  writeFileSync(
    join(folder, 'svc.toml'),
    `plugins = ["./slow.ts"]\n[server]\nhttp_addr = "127.0.0.1:0"\nshutdown_timeout_secs = ${shutdownSecs}\nlog_level = "debug"\n`,
  )
  return join(folder, 'svc.toml')
}

const urlOf = (run: Run) => eventually(() => /ready url=(\S+)/.exec(run.err())?.[1])

t.test('SIGTERM: stops accepting, finishes what is in flight, exits 0', async (t) => {
  const run = start(['serve', '--config', config(6000, 300)])
  const url = await urlOf(run)
  const answer = fetch(`${url}/slow`)
  await eventually(() => run.err().includes('it is asked'))
  run.child.kill('SIGTERM')
  await eventually(() => run.err().includes('stopping'))
  let refused = false
  while (!refused)
    refused = await fetch(`${url}/health`).then(
      () => false,
      () => true,
    )
  t.notOk(run.err().includes('stopped'), 'new connections are refused')
  t.same(await (await answer).json(), { done: true })
  t.equal(await run.exit, 0, 'a connection kept alive does not hold it up')
  t.match(run.err(), /stopped\n$/)
})

t.test('SIGHUP: goes on', async (t) => {
  const run = start(['serve', '--config', config(300, 300)])
  const url = await urlOf(run)
  const answer = fetch(`${url}/slow`)
  await eventually(() => run.err().includes('it is asked'))
  run.child.kill('SIGHUP')
  await eventually(() => run.err().includes('SIGHUP'))
  t.same(await (await answer).json(), { done: true })
  run.child.kill('SIGTERM')
  t.equal(await run.exit, 0)
})

t.test('requests that outlast shutdown_timeout_secs are cut', async (t) => {
  const run = start(['serve', '--config', config(60_000, 3)])
  const answer = fetch(`${await urlOf(run)}/slow`)
  answer.catch(() => {})
  await eventually(() => run.err().includes('it is asked'))
  run.child.kill('SIGINT')
  await t.rejects(answer)
  t.equal(await run.exit, 0)
})

t.test('signals that come together are one: timeout(1) signals the process, and its group too', async (t) => {
  const run = start(['serve', '--config', config(1000, 300)])
  const answer = fetch(`${await urlOf(run)}/slow`)
  await eventually(() => run.err().includes('it is asked'))
  // The system has two of one number for one where the first was not taken yet.
  run.child.kill('SIGTERM')
  run.child.kill('SIGINT')
  t.same(await (await answer).json(), { done: true })
  t.equal(await run.exit, 0)
})

t.test('a second signal ends the process at once', async (t) => {
  const run = start(['serve', '--config', config(60_000, 60)])
  fetch(`${await urlOf(run)}/slow`).catch(() => {})
  await eventually(() => run.err().includes('it is asked'))
  run.child.kill('SIGTERM')
  await eventually(() => run.err().includes('stopping'))
  await eventually(() => !run.child.kill('SIGTERM') || run.child.signalCode !== null)
  t.equal(await run.exit, null)
  t.equal(run.child.signalCode, 'SIGKILL')
})

t.test('SIGTERM ends the process in time while a thread does not end', async (t) => {
  const run = start(['serve', '--config', config(0, 0.5)])
  const url = await urlOf(run)
  await fetch(`${url}/stuck`)
  run.child.kill('SIGTERM')
  await run.exit
  t.equal(run.child.signalCode, 'SIGKILL')
  t.match(run.err(), /cannot stop within server.shutdown_timeout_secs/)
})

t.test('a plugin whose drain does not end is named before the process is killed', async (t) => {
  const run = start(['serve', '--config', config(0, 0.5)])
  await fetch(`${await urlOf(run)}/hang`)
  run.child.kill('SIGTERM')
  await run.exit
  t.equal(run.child.signalCode, 'SIGKILL')
  t.match(run.err(), /cannot stop within server.shutdown_timeout_secs.* waits_for="drain of plugin \\"slow\\""/)
})

t.test('a taken port exits 1, naming the address', async (t) => {
  const first = start(['serve', '--bind', '127.0.0.1:0'])
  const { host } = new URL(await urlOf(first))
  const second = start(['--bind', host])
  t.equal(await second.exit, 1)
  t.match(
    second.err(),
    new RegExp(
      `svc: cannot start the HTTP listener: cannot listen on server.http_addr "${host}": .*EADDRINUSE.*; another process has it, and .* names that one; end it, or set another port`,
    ),
  )
  first.child.kill('SIGTERM')
  t.equal(await first.exit, 0)
})

t.test('an older Node.js is told which one is needed, before anything is loaded that it lacks', async (t) => {
  const older = "Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.19.0' } })"
  const outcome = spawnSync(process.execPath, ['--import', `data:text/javascript,${encodeURIComponent(older)}`, main, '--version'], { encoding: 'utf8' })
  t.equal(outcome.status, 1)
  t.equal(outcome.stderr, 'svc: cannot run on Node.js 20.19.0: it needs 24 or later; install that, or put it first in PATH\n')
  t.notMatch(readFileSync(main, 'utf8'), /^import /m, 'what is imported statically is loaded before the first line')
})
