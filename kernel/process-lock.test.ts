import { lstatSync, mkdirSync, readdirSync, readFileSync, readlinkSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { ProcessLock } from './process-lock.ts'

const texts = { held: (pid: number) => `process ${pid} has it`, unclear: 'it is no lock' }
const lockIn = (t: Test) => {
  const folder = t.testdir({})
  const path = join(folder, 'LOCK')
  return { folder, path, lock: () => new ProcessLock(path, texts) }
}
const started = readFileSync('/proc/self/stat', 'utf8').split(') ')[1].split(' ')[19]
const holder = (pid: number, since: string) => JSON.stringify({ pid, started: since })

t.test('one at a time; released, it is the next one’s', async (t) => {
  const { folder, path, lock } = lockIn(t)
  const [first, second] = [lock(), lock()]
  first.acquire()
  t.same(JSON.parse(readlinkSync(path)), { pid: process.pid, started })
  t.throws(() => second.acquire(), { code: 'CONFIG_ERROR', message: `process ${process.pid} has it` })
  second.release()
  t.ok(lstatSync(path).isSymbolicLink(), 'who does not hold it does not release it')
  first.release()
  first.release()
  t.same(readdirSync(folder), [])
  second.acquire()
  second.release()
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
  t.same(readdirSync(folder), [], 'nothing is left behind')
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
  t.same(readdirSync(folder), ['LOCK'])
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
