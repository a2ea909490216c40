import { appendFile, type FileHandle, mkdir, mkdtemp, open, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { DeadLetters } from './dead-letters.ts'

const MIB = 1024 * 1024

async function folderOf(t: Test): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-letters-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  return folder
}

const letter = (text: string) => ({ time: 0, topic: 't', code: 'BAD_REQUEST', error: 'bad', body: Buffer.from(text) })

/** The most bytes outside the heap that are held meanwhile, beyond those before. */
async function mostHeld(work: Promise<unknown>): Promise<number> {
  const before = process.memoryUsage().external
  let most = 0
  let over = false
  const done = work.finally(() => {
    over = true
  })
  while (!over) {
    most = Math.max(most, process.memoryUsage().external - before)
    await new Promise((resolve) => setImmediate(resolve))
  }
  await done
  return most
}

/** So many lines in so many bytes, most of them in no block of the disk. */
async function sparse(path: string, bytes: number, lines: number): Promise<void> {
  await writeFile(path, '\n'.repeat(lines - 1))
  const file = await open(path, 'r+')
  await file.truncate(bytes - 1)
  await file.close()
  await appendFile(path, '\n')
}

t.test('large files are counted in parts', async (t) => {
  const folder = await folderOf(t)
  const dropped: number[] = []
  const size = 256 * MIB
  await sparse(join(folder, 'one.jsonl'), size, 1000)
  await sparse(join(folder, 'one.jsonl.1'), size, 77)
  const letters = new DeadLetters({ folder, name: 'one', maxBytes: size + 1000, dropped: (messages) => void dropped.push(messages) })
  t.teardown(() => letters.close())
  const held = await mostHeld(letters.add(letter('first')))
  t.ok(held < 64 * MIB, `${Math.round(held / MIB)} MiB were held`)
  t.same(dropped, [])
  const turned = await mostHeld(letters.add(letter('x'.repeat(2000))))
  t.ok(turned < 64 * MIB, `${Math.round(turned / MIB)} MiB were held`)
  t.same(dropped, [77], 'the file before is gone, and counted')
  t.match(JSON.parse(await readFile(join(folder, 'one.jsonl'), 'utf8')), { topic: 't', code: 'BAD_REQUEST' })
  t.ok((await stat(join(folder, 'one.jsonl.1'))).size > size)
})

t.test('a line that a crash has cut is ended', async (t) => {
  const folder = await folderOf(t)
  await writeFile(join(folder, 'one.jsonl'), '{"whole":1}\n{"cut"')
  const letters = new DeadLetters({ folder, name: 'one', maxBytes: MIB, dropped() {} })
  await letters.add(letter('next'))
  await letters.close()
  const lines = (await readFile(join(folder, 'one.jsonl'), 'utf8')).split('\n')
  t.match(lines, ['{"whole":1}', '{"cut"', /^{"time":.*}$/, ''])
})

t.test('a letter is read again whatever characters its error has, and however long it is', async (t) => {
  const folder = await folderOf(t)
  const letters = new DeadLetters({ folder, name: 'one', maxBytes: 8 * MIB, dropped() {} })
  t.teardown(() => letters.close())
  const bodies = ['first', 'x'.repeat(3 * MIB), 'third']
  for (const body of bodies) await letters.add({ ...letter(body), error: "unable to parse 'a\u2028b\u2029c\rd\u0085'" })
  await appendFile(join(folder, 'one.jsonl'), '{"cut"')
  const read: string[] = []
  await letters.replay(async ({ body }) => void read.push(`${body}`))
  t.ok(read.join() === bodies.join(), `${read.length} letters were read`)
  t.same(await readdir(folder), [])
})

t.test('what could not be written whole is not there twice when it is given again', async (t) => {
  const folder = await folderOf(t)
  const lengths: number[] = []
  const letters = new DeadLetters({ folder, name: 'one', maxBytes: 4 * MIB, dropped() {} })
  t.teardown(() => letters.close())
  await letters.add(letter('before'))
  // A disk with room for a part of what is appended, as it is when it is all but full.
  const { file } = letters as unknown as { file: FileHandle }
  const append = file.appendFile.bind(file)
  file.appendFile = async (bytes) => {
    lengths.push((bytes as Buffer).length)
    await append((bytes as Buffer).subarray(0, (bytes as Buffer).length - 10))
    throw Object.assign(new Error('no space'), { code: 'ENOSPC' })
  }
  const bodies = Array.from({ length: 10 }, (_, n) => `letter ${n}`)
  const results = await Promise.allSettled(bodies.map((body) => letters.add(letter(body))))
  t.ok(results.every(({ status }) => status === 'rejected'))
  t.equal(lengths.length, 1)
  await Promise.all(bodies.map((body) => letters.add(letter(body))))
  const read: string[] = []
  await letters.replay(async ({ body }) => void read.push(`${body}`))
  t.same(read, ['before', ...bodies])
})

t.test('of letters that do not go in one file those are settled that are durable', async (t) => {
  const folder = await folderOf(t)
  const letters = new DeadLetters({ folder, name: 'one', maxBytes: 65_536, dropped() {} })
  t.teardown(() => letters.close())
  const first = letters.add(letter('x'.repeat(20_000)))
  await first
  // Where the file before is to go to, there is a folder.
  await mkdir(join(folder, 'one.jsonl.1', 'in the way'), { recursive: true })
  const results = await Promise.allSettled([20_000, 20_000].map((bytes) => letters.add(letter('y'.repeat(bytes)))))
  t.same(
    results.map(({ status }) => status),
    ['fulfilled', 'rejected'],
  )
})

t.test('whatever bit of a letter turns: it is not given as another one, and is kept', async (t) => {
  const folder = await folderOf(t)
  const path = join(folder, 'one.jsonl')
  const letters = new DeadLetters({ folder, name: 'one', maxBytes: MIB, dropped() {} })
  t.teardown(() => letters.close())
  const whole = { ...letter('cpu v=1'), pointTime: 7n }
  for (const text of ['before', whole, 'after']) await letters.add(typeof text === 'string' ? letter(text) : text)
  await letters.close()
  const bytes = await readFile(path)
  const begin = bytes.indexOf(10) + 1
  // Of each byte one bit, the next of the next.
  for (let bit = begin * 8; bit <= bytes.indexOf(10, begin) * 8 + 7; bit += 9) {
    const turned = Buffer.from(bytes)
    turned[bit >> 3] ^= 1 << (bit & 7)
    await writeFile(path, turned)
    const read: string[] = []
    const damaged = await letters.replay(async ({ body, topic, pointTime }) => void read.push(`${topic} ${body} ${pointTime}`))
    const kept = await readFile(`${path}.damaged`, 'utf8').catch(() => '')
    const [all, some] = [['t before undefined', 't cpu v=1 7', 't after undefined'], kept.trim().split('\n')]
    const right = damaged === 0 ? read.join() === all.join() : read.every((one) => all.includes(one)) && some.length === damaged && read.length >= 1
    if (!right) t.fail(`bit ${bit - begin * 8}: ${damaged} damaged, read ${read}, kept ${kept}`)
    if (damaged > 0 && !turned.toString().includes(some[0])) t.fail(`bit ${bit - begin * 8}: kept ${kept}`)
    await rm(`${path}.damaged`, { force: true })
  }
})

t.test('letters of older versions have no checksum', async (t) => {
  const folder = await folderOf(t)
  const line = '{"time":"2026-01-02T03:04:05.000Z","topic":"plant/a","code":"INVALID_POINT","error":"e","body":"Y3B1"}'
  await writeFile(join(folder, 'one.jsonl'), `${line}\n${line.replace('"body"', '"bo\u0000y"')}\n${line}\n`)
  const letters = new DeadLetters({ folder, name: 'one', maxBytes: MIB, dropped() {} })
  const read: string[] = []
  t.equal(await letters.replay(async ({ body }) => void read.push(String(body))), 1)
  t.same(read, ['cpu', 'cpu'])
  t.same(await readdir(folder), ['one.jsonl.damaged'])
})

t.test('lines that cannot be read are kept within the bound, and counted beyond', async (t) => {
  const folder = await folderOf(t)
  const dropped: number[] = []
  const letters = new DeadLetters({ folder, name: 'one', maxBytes: 65_536, dropped: (messages) => void dropped.push(messages) })
  for (let round = 0; round < 3; round++) {
    await writeFile(join(folder, 'one.jsonl'), `{"${'x'.repeat(30_000)}"}\n`)
    t.equal(await letters.replay(async () => {}), 1)
  }
  t.same(dropped, [1])
  t.ok((await stat(join(folder, 'one.jsonl.damaged'))).size <= 65_536)
})
