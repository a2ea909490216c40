import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type FileCalls, realFileCalls, replaceFile } from './atomic-file.ts'

function folderOf(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-file-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

const MODULE = new URL('./atomic-file.ts', import.meta.url).href
/** A process of its own that runs `script` with `replaceFile` and `path`. @param prefix of the shell, such as a limit. */
function child(script: string, path: string, prefix = '') {
  const code = `import { replaceFile } from ${JSON.stringify(MODULE)}; const path = process.argv[1]; ${script}`
  // The test runner has processes that tests start write files of their own, which the limit would meet first: nothing of its environment is passed on.
  const command = ['-i', `PATH=${process.env.PATH}`, '/bin/sh', '-c', `${prefix} exec "$0" "$@"`, process.execPath, '--input-type=module', '-e', code, path]
  return spawn('env', command, { stdio: ['ignore', 'pipe', 'pipe'] })
}

t.test('makes and replaces a file, for the owner only', async (t) => {
  const folder = folderOf(t)
  const path = join(folder, 'auth', 'deep', 'keys.json')
  await replaceFile(path, 'one')
  t.equal(readFileSync(path, 'utf8'), 'one')
  t.equal(statSync(path).mode & 0o777, 0o600)
  t.equal(statSync(join(folder, 'auth')).mode & 0o777, 0o700)
  await replaceFile(path, Buffer.from('two'))
  t.equal(readFileSync(path, 'utf8'), 'two')
  t.same(readdirSync(join(folder, 'auth', 'deep')), ['keys.json'])
})

/** What was called, in order, by the names of files. @param failing a call that fails. */
function recording(folder: string, failing?: string): { calls: FileCalls; seen: string[] } {
  const seen: string[] = []
  const said = (what: string) => {
    seen.push(what)
    if (what === failing) throw Object.assign(new Error(`${what} failed`), { code: 'EIO' })
  }
  const name = (path: string) => path.slice(folder.length + 1) || '.'
  const calls: FileCalls = {
    ...realFileCalls,
    async open(path, flags, mode) {
      const file = await realFileCalls.open(path, flags, mode)
      return {
        async writeFile(text) {
          said(`write ${name(path)}`)
          await file.writeFile(text)
        },
        async sync() {
          said(`sync ${name(path)}`)
          await file.sync()
        },
        close: () => file.close(),
      }
    },
    async rename(from, to) {
      said(`rename ${name(to)}`)
      await realFileCalls.rename(from, to)
    },
  }
  return { calls, seen }
}

t.test('the text is synced before the name, and the name before it is done', async (t) => {
  const folder = folderOf(t)
  const { calls, seen } = recording(folder)
  await replaceFile(join(folder, 'keys.json'), 'one', calls)
  t.same(seen, ['write keys.json.tmp', 'sync keys.json.tmp', 'rename keys.json', 'sync .'])
  const deep = recording(folder)
  await replaceFile(join(folder, 'auth', 'deep', 'keys.json'), 'one', deep.calls)
  const after = deep.seen.indexOf('write auth/deep/keys.json.tmp')
  t.same(deep.seen.slice(0, after), ['sync auth', 'sync .'], 'directories that are new are durable first')
  t.equal(deep.seen.at(-1), 'sync auth/deep')
})

t.test('a failed sync of the text leaves the old one', async (t) => {
  const folder = folderOf(t)
  const path = join(folder, 'keys.json')
  await replaceFile(path, 'old')
  for (const failing of ['write keys.json.tmp', 'sync keys.json.tmp', 'rename keys.json']) {
    await t.rejects(replaceFile(path, 'new', recording(folder, failing).calls), { code: 'EIO' })
    t.equal(readFileSync(path, 'utf8'), 'old', failing)
    t.same(readdirSync(folder), ['keys.json'])
  }
  await t.rejects(replaceFile(path, 'new', recording(folder, 'sync .').calls), { code: 'EIO' }, 'a name that may not be durable is no success')
})

t.test('what a crash has left beside it is neither kept nor followed', async (t) => {
  const folder = folderOf(t)
  const path = join(folder, 'keys.json')
  writeFileSync(path, 'old')
  writeFileSync(`${path}.tmp`, 'half of a very long text that was there before')
  chmodSync(`${path}.tmp`, 0o666)
  await replaceFile(path, 'new')
  t.equal(readFileSync(path, 'utf8'), 'new')
  t.equal(statSync(path).mode & 0o777, 0o600, 'not as open as what was left')
  const victim = join(folder, 'victim')
  writeFileSync(victim, 'untouched')
  symlinkSync(victim, `${path}.tmp`)
  await replaceFile(path, 'newer')
  t.equal(readFileSync(victim, 'utf8'), 'untouched')
  t.same(readdirSync(folder).sort(), ['keys.json', 'victim'])
})

t.test('a disk that takes no more leaves the old text, and nothing beside it', async (t) => {
  const folder = folderOf(t)
  const path = join(folder, 'keys.json')
  await replaceFile(path, 'old')
  // The limit of a file's size fails a write half-way, as a full disk does.
  const script = `try { await replaceFile(path, 'x'.repeat(1000000)); console.log('written') } catch (error) { console.log(error.code) }`
  const process = child(script, path, 'ulimit -f 8;')
  let said = ''
  process.stdout.on('data', (text) => (said += text))
  await once(process, 'close')
  t.equal(said.trim(), 'EFBIG')
  t.equal(readFileSync(path, 'utf8'), 'old')
  t.same(readdirSync(folder), ['keys.json'])
})

t.test('a folder that cannot be made fails, as does a path that is a folder', async (t) => {
  const folder = folderOf(t)
  writeFileSync(join(folder, 'file'), 'old')
  await t.rejects(replaceFile(join(folder, 'file', 'keys.json'), 'new'), { code: /ENOTDIR|EEXIST/ })
  t.equal(readFileSync(join(folder, 'file'), 'utf8'), 'old')
  await replaceFile(join(folder, 'sub', 'x'), 'x')
  await t.rejects(replaceFile(join(folder, 'sub'), 'new'), { code: /EISDIR|ENOTEMPTY|EEXIST/ })
  t.notOk(existsSync(join(folder, 'sub.tmp')))
})

t.test('a process that is killed at any moment leaves the old text or the new one', async (t) => {
  const folder = folderOf(t)
  const path = join(folder, 'keys.json')
  await replaceFile(path, `${'0'.repeat(200_000)}!`)
  const script = `console.log('go'); for (let i = 1; ; i++) await replaceFile(path, String(i % 10).repeat(200000) + '!')`
  const seed = Date.now() % 1000
  t.comment(`seed ${seed}`)
  for (let round = 0; round < 8; round++) {
    const process = child(script, path)
    await once(process.stdout, 'data')
    await new Promise((resolve) => setTimeout(resolve, (seed * (round + 3)) % 23))
    process.kill('SIGKILL')
    await once(process, 'close')
    const text = readFileSync(path, 'utf8')
    t.ok(/^(\d)\1*!$/.test(text) && text.length === 200_001, `whole after round ${round}`)
  }
  await replaceFile(path, 'after')
  t.same(readdirSync(folder), ['keys.json'])
})

t.test('below a directory that takes none an error comes', { skip: !existsSync('/proc/self') && 'no /proc' }, async (t) => {
  // Node's own recursive mkdir never returns there, nor lets the process end: it may take a child, not this process.
  const path = '/proc/svc/deep/keys.json'
  const ended = child(`await replaceFile(path, 'x').catch((error) => console.log(error.code))`, path)
  let said = ''
  ended.stdout.on('data', (text) => (said += text))
  const tooLong = setTimeout(() => ended.kill('SIGKILL'), 10_000)
  const [code] = await once(ended, 'close')
  clearTimeout(tooLong)
  t.same([code, said], [0, 'ENOENT\n'])
})
