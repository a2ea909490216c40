/** The worked example of docs/formats/audit.md is what the code writes and verifies. */
import { createHmac } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { AuditRecord } from 'svcdb'
import { mapState } from 'svcdb/testkit'
import t from 'tap'
import { ChainCheck } from '../../plugins/audit/chain.ts'
import { draftOf } from '../../plugins/audit/draft.ts'
import { type Entry, encodeEntry, sealBy, sealedText } from '../../plugins/audit/entry.ts'
import { HeadKeeper, readBeginnings, readHead } from '../../plugins/audit/head.ts'
import { parseEntry } from '../../plugins/audit/parse.ts'

const page = readFileSync(new URL('../../docs/formats/audit.md', import.meta.url), 'utf8')
const example = /```json lines\n([^`]*)```/.exec(page)?.[1] ?? ''
const sealed = /```text sealed\n([^`]*)\n```/.exec(page)?.[1] ?? ''
const lines = example.trimEnd().split('\n')
const KEY = 'an example, no secret'
const seal = sealBy(Buffer.from(KEY))

const firstProblem = (given: readonly string[]): string | undefined => {
  const chain = new ChainCheck(seal, 'first')
  return given.map((line) => chain.problem(line)).find((problem) => problem !== undefined)
}

t.test('the example verifies, and is what is written', async (t) => {
  t.equal(lines.length, 3)
  t.equal(firstProblem(lines), undefined)
  t.equal(lines.map((line) => encodeEntry(parseEntry(line) as Entry)).join(''), example)
  const record: AuditRecord = { action: 'delete', resource: '/api/v1/measurements/:name', decision: 'allow' }
  const metadata = { surface: 'http', method: 'jwt', namespace: 'default', path: '/api/v1/measurements/100%25' }
  const draft = draftOf({ ...record, metadata, principal: 'ann|ops', address: '192.0.2.8', requestId: 'r-18' })
  t.match(parseEntry(lines[2]), draft)
})

t.test('the hash is that of the text shown', async (t) => {
  const last = parseEntry(lines[2]) as Entry
  t.equal(sealedText(last), sealed)
  t.equal(createHmac('sha256', KEY).update(sealed).digest('hex'), last.hash)
})

t.test('no byte of it can be changed, and no line left out', async (t) => {
  for (const [i, line] of lines.entries()) {
    if (i < lines.length - 1) t.type(firstProblem(lines.toSpliced(i, 1)), 'string')
    for (let at = 0; at < line.length; at++) {
      const changed = `${line.slice(0, at)}${line[at] === 'x' ? 'y' : 'x'}${line.slice(at + 1)}`
      if (firstProblem(lines.with(i, changed)) === undefined) t.fail(`line ${i + 1}, character ${at + 1}: ${changed}`)
    }
  }
})

t.test('what the page says the state store has is what is read', async (t) => {
  const state = mapState()
  const entries = [...page.matchAll(/```json (head|file\/\d{20})\n([^`]*)```/g)]
  await state.transaction((tx) => {
    for (const [, key, text] of entries) tx.put(key, JSON.parse(text))
  })
  const [first, , last] = lines.map((line) => parseEntry(line) as Entry)
  t.same(await readHead(state), { id: last.id, hash: last.hash })
  t.same([...(await readBeginnings(state))], [first.hash])
  const written = mapState()
  const keeper = await HeadKeeper.open({ state: written, failed: (error) => t.fail(String(error)) })
  keeper.begins({ id: 0n, hash: first.hash })
  keeper.note({ id: last.id, hash: last.hash })
  await keeper.close()
  t.same(await written.list(), await state.list())
})
