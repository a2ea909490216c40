/** The worked example of docs/formats/dead-letters.md is what the code writes, also where a file is full or was cut. */
import { appendFile, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DeadLetters } from 'svcdb/lib/source'
import t from 'tap'
import { fences } from '../support/markdown.ts'
import { read } from '../support/tree.ts'

const letter = { time: Date.UTC(2026, 0, 2, 3, 4, 5), topic: 'plant/a', code: 'INVALID_POINT', error: 'missing fields (line 1)', body: Buffer.from('cpu') }

async function open(t: { teardown(fn: () => unknown): void }, maxBytes: number) {
  const folder = await mkdtemp(join(tmpdir(), 'svc-letters-'))
  const dropped: number[] = []
  const open = (): DeadLetters =>
    new DeadLetters({ folder: join(folder, 'dead-letters'), name: 'one', maxBytes, dropped: (messages) => void dropped.push(messages) })
  t.teardown(() => rm(folder, { recursive: true }))
  return { open, dropped }
}

t.test('the example', async (t) => {
  const letters = (await open(t, 65_536)).open()
  await letters.add(letter)
  await letters.close()
  t.equal(await readFile(letters.path, 'utf8'), `${fences(read('docs/formats/dead-letters.md'))[0].text.trim()}\n`)
})

t.test('a line that a crash has cut stays, and the next begins its own', async (t) => {
  const { open: again } = await open(t, 65_536)
  const first = again()
  await first.add(letter)
  await first.close()
  await appendFile(first.path, '{"time":"20')
  const second = again()
  await Promise.all([second.add(letter), second.add({ ...letter, topic: 'b' })])
  await second.close()
  const lines = (await readFile(first.path, 'utf8')).split('\n')
  t.equal(lines.length, 5)
  t.same(
    [lines[0], lines[2], lines[3]].map((line) => JSON.parse(line).topic),
    ['plant/a', 'plant/a', 'b'],
  )
})

t.test('it is bounded: the oldest give way and are counted, and a message that is too large is cut', async (t) => {
  const { open: again, dropped } = await open(t, 65_536)
  let letters = again()
  const body = Buffer.alloc(15_000, 'x')
  let kept = 0
  for (let i = 0; i < 20; i++) {
    await letters.add({ ...letter, topic: String(i), body })
    if (i % 7 !== 6) continue
    await letters.close()
    letters = again()
  }
  const texts = [await readFile(`${letters.path}.1`, 'utf8'), await readFile(letters.path, 'utf8')]
  const topics = texts.flatMap((text) =>
    text
      .trim()
      .split('\n')
      .map((line) => Number(JSON.parse(line).topic)),
  )
  for (const text of texts) t.ok(text.length <= 65_536, `${text.length} bytes`)
  kept = topics.length
  t.same(
    topics,
    Array.from({ length: kept }, (_, i) => 20 - kept + i),
    'the newest are there',
  )
  t.equal(
    dropped.reduce((sum, messages) => sum + messages, 0),
    20 - kept,
  )
  await letters.add({ ...letter, topic: 'large', body: Buffer.alloc(1_000_000, 'y') })
  await letters.close()
  const large = JSON.parse((await readFile(letters.path, 'utf8')).trim().split('\n').at(-1) as string)
  t.match(large, { topic: 'large', bytes: 1_000_000 })
  t.ok(Buffer.from(large.body, 'base64').length > 40_000)
})
