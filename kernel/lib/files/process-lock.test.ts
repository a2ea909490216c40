import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, lstatSync, mkdirSync, readdirSync, readFileSync, readlinkSync, rmSync, statSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { ProcessLock } from './process-lock.ts'

const texts = { held: (holder: string) => `${holder} has it`, unclear: 'it is no lock', unlockable: (cause: string) => `no lock: ${cause}` }
const lockIn = (t: Test) => {
  const folder = t.testdir({})
  const path = join(folder, 'LOCK')
  return { folder, path, lock: () => new ProcessLock(path, texts) }
}
const started = readFileSync('/proc/self/stat', 'utf8').split(') ')[1].split(' ')[19]
const holder = (pid: number, since: string) => JSON.stringify({ pid, started: since })

const MODULE = new URL('./process-lock.ts', import.meta.url).href
const SCRIPT = `
  import { ProcessLock } from ${JSON.stringify(MODULE)}
  import { spawn } from 'node:child_process'
  const lock = new ProcessLock(process.argv[1], { held: (who) => who + ' has it', unclear: 'unclear', unlockable: (cause) => cause })
  try { lock.acquire(); console.log('has it') } catch (error) { console.log(error.message); process.exit() }
  process.on('SIGTERM', () => { lock.release(); process.exit() })
  if (process.argv[2] === 'child') console.log(spawn('sleep', ['600'], { detached: true, stdio: 'ignore' }).pid)
  setInterval(() => {}, 1000)`

/** A process that takes the lock, or says why not, and then waits. @param within what the command line begins with. */
function taker(t: Test, path: string, { within = [], with: more = [] }: { within?: string[]; with?: string[] } = {}): ChildProcess {
  const [command, ...args] = [...within, process.execPath, '--input-type=module', '-e', SCRIPT, path, ...more]
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'], env: { PATH: process.env.PATH } })
  t.teardown(() => child.kill('SIGKILL'))
  return child
}

/** Its next output. */
async function said(child: ChildProcess): Promise<string> {
  const [text] = (await once(child.stdout as NodeJS.ReadableStream, 'data')) as [Buffer]
  return text.toString().trim()
}

async function ended(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  const exit = once(child, 'exit')
  child.kill(signal)
  await exit
}

/** Why this machine has no PID namespaces for tests; undefined where it has. */
function withoutNamespaces(): string | undefined {
  try {
    execFileSync('unshare', ['-rpf', '--mount-proc', 'true'], { stdio: 'pipe' })
    return undefined
  } catch (error) {
    return `unshare is refused here: ${(error as Error).message.split('\n').at(-1)}`
  }
}

t.test('one at a time; released, it is the next one’s', async (t) => {
  const { folder, path, lock } = lockIn(t)
  const [first, second] = [lock(), lock()]
  first.acquire()
  t.same(JSON.parse(readlinkSync(path)), { pid: process.pid, started })
  t.equal(statSync(`${path}.os`).mode & 0o777, 0o600)
  t.throws(() => second.acquire(), { code: 'CONFIG_ERROR', message: `process ${process.pid} has it` })
  second.release()
  t.ok(lstatSync(path).isSymbolicLink(), 'who does not hold it does not release it')
  t.throws(() => second.acquire(), { message: `process ${process.pid} has it` }, 'nor does a refusal end the lock of the operating system')
  first.release()
  first.release()
  t.same(readdirSync(folder), ['LOCK.os'])
  second.acquire()
  second.release()
})

t.test('the lock of the operating system counts, whatever the link says', async (t) => {
  const { path, lock } = lockIn(t)
  const other = taker(t, path)
  t.equal(await said(other), 'has it')
  t.throws(() => lock().acquire(), { code: 'CONFIG_ERROR', message: `process ${other.pid} has it` })
  unlinkSync(path)
  t.throws(() => lock().acquire(), { message: 'another process has it' })
  symlinkSync(holder(4_194_304, '1'), path)
  t.throws(() => lock().acquire(), { message: 'process 4194304 of another container or machine has it' })
  await ended(other, 'SIGKILL')
  const next = lock()
  next.acquire()
  t.equal(readlinkSync(path), holder(process.pid, started), 'a kill frees it')
  next.release()
})

const without = withoutNamespaces()
t.test('two PID namespaces on one volume', { skip: without ?? false }, async (t) => {
  const { path, lock } = lockIn(t)
  const container = ['unshare', '-rpf', '--kill-child', '--mount-proc']
  const own = lock()
  own.acquire()
  t.match(await said(taker(t, path, { within: container })), /^process \d+ of another container or machine has it$/)
  own.release()
  const inside = taker(t, path, { within: container })
  t.equal(await said(inside), 'has it')
  t.throws(() => lock().acquire(), { code: 'CONFIG_ERROR', message: / has it$/ })
  t.match(await said(taker(t, path, { within: container })), / has it$/, 'nor two containers with equal pids')
  await ended(inside, 'SIGKILL')
  for (;;) {
    // The container's own process ends a moment after what started it.
    try {
      own.acquire()
      break
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
  }
  own.release()
})

t.test('children do not keep it', async (t) => {
  const { path, lock } = lockIn(t)
  const parent = taker(t, path, { with: ['child'] })
  let text = ''
  while (!/has it\n\d+/.test(text)) text += `${await said(parent)}\n`
  const child = Number(/\d+$/m.exec(text)?.[0])
  t.teardown(() => process.kill(child, 'SIGKILL'))
  await ended(parent, 'SIGKILL')
  process.kill(child, 0)
  const next = lock()
  next.acquire()
  next.release()
})

t.test('what a process that is gone has left is taken over, also of an earlier version', async (t) => {
  const { folder, path, lock } = lockIn(t)
  const left: [string, (text: string) => void][] = [
    ['a link', (text) => symlinkSync(text, path)],
    ['a file', (text) => writeFileSync(path, text)],
  ]
  for (const [what, leave] of left) {
    for (const text of [holder(4_194_304, '1'), holder(process.pid, '1')]) {
      leave(text)
      const next = lock()
      next.acquire()
      t.equal(readlinkSync(path), holder(process.pid, started), `${what}: ${text}`)
      next.release()
    }
    leave(holder(process.pid, started))
    t.throws(() => lock().acquire(), { message: `process ${process.pid} has it` }, `${what} of one that runs`)
    unlinkSync(path)
  }
  for (const text of ['', '\0'.repeat(32)]) {
    writeFileSync(path, text)
    const next = lock()
    next.acquire()
    next.release()
  }
  symlinkSync('nonsense', path)
  const next = lock()
  next.acquire()
  next.release()
  t.same(readdirSync(folder), ['LOCK.os'], 'nothing else is left behind')
})

t.test('what is no lock stays as it is', async (t) => {
  const { folder, path, lock } = lockIn(t)
  for (const text of ['a file of somebody', '\0'.repeat(1000), `${holder(1, '1')}\n`]) {
    writeFileSync(path, text)
    t.throws(() => lock().acquire(), { code: 'CONFIG_ERROR', message: 'it is no lock' })
    t.equal(readFileSync(path, 'utf8'), text)
    rmSync(path)
  }
  mkdirSync(path)
  t.throws(() => lock().acquire(), { message: 'it is no lock' })
  t.same(readdirSync(folder), ['LOCK', 'LOCK.os'])
  rmSync(path, { recursive: true })
  const next = lock()
  next.acquire()
  next.release()
  writeFileSync(`${path}.os`, 'a file of somebody '.repeat(100))
  t.throws(() => lock().acquire(), { code: 'CONFIG_ERROR', message: /^no lock: file is not a database/ })
  t.equal(readFileSync(`${path}.os`, 'utf8').length, 1900)
})

t.test('in a directory that cannot be written it fails, and is not held', async (t) => {
  const { folder, lock } = lockIn(t)
  chmodSync(folder, 0o555)
  const own = lock()
  // The superuser writes everywhere.
  const nobody = process.geteuid?.() === 0
  if (nobody) process.seteuid?.(65_534)
  try {
    t.throws(() => own.acquire(), { code: 'EACCES' })
  } finally {
    if (nobody) process.seteuid?.(0)
    chmodSync(folder, 0o755)
  }
  t.same(readdirSync(folder), [])
  own.release()
})

const AS_NOBODY = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups']
/** Why no process of another account can be had; undefined where it can. */
function withoutNobody(): string | undefined {
  try {
    execFileSync(AS_NOBODY[0], [...AS_NOBODY.slice(1), process.execPath, '-e', `await import(${JSON.stringify(MODULE)})`], { stdio: 'pipe' })
    return undefined
  } catch (error) {
    return `setpriv is refused here: ${(error as Error).message.split('\n').at(-1)}`
  }
}

t.test('a lock file of another account is told from one that cannot be locked', { skip: withoutNobody() ?? false }, async (t) => {
  const { folder, path } = lockIn(t)
  chmodSync(folder, 0o777)
  writeFileSync(`${path}.os`, '', { mode: 0o600 })
  t.match(await said(taker(t, path, { within: AS_NOBODY })), /^EACCES: permission denied, access '.*LOCK\.os'$/)
})

t.test('a lock that another took over is theirs', async (t) => {
  const { path, lock } = lockIn(t)
  const first = lock()
  first.acquire()
  unlinkSync(path)
  symlinkSync(holder(1, '1'), path)
  first.release()
  t.equal(readlinkSync(path), holder(1, '1'))
})
