/** The worked example of docs/formats/plane-records.md is what the code reads, and writes again to the byte. */
import { hash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { StateStore } from 'svcdb'
import t, { type Test } from 'tap'
import { wallClock } from '../../plugins/agent_plane/cases/calendar.ts'
import { RunJournal } from '../../plugins/agent_plane/drive/run-journal.ts'
import { isWhole } from '../../plugins/agent_plane/plan/plan.ts'
import { canonical } from '../../plugins/agent_plane/record/canonical.ts'
import { lazily } from '../../plugins/agent_plane/record/lazy.ts'
import { effectKey } from '../../plugins/agent_plane/record/names.ts'
import { CHAIN_START, decode, type Sealed, seal, verified } from '../../plugins/agent_plane/record/record.ts'
import { memoryState } from '../../plugins/agent_plane/testing/world.ts'
import { fences } from '../support/markdown.ts'

const page = readFileSync(new URL('../../docs/formats/plane-records.md', import.meta.url), 'utf8')
const [example] = fences(page).filter(({ line }) => page.split('\n')[line - 1].endsWith(' records'))
const lines = example.text.trim().split('\n')
const head = /The hash of the last one is `([0-9a-f]{64})`/.exec(page)?.[1] as string
const run = 'run_01HF7YAT003MQHVMK0TR0T4D8Z'

/** The lines of an example read and written again, each with the hash of the chain up to it. @returns also the hash of the last. */
function sealedAgain(t: Test, text: string): { sealed: Sealed[]; hash: string } {
  let hash = CHAIN_START
  const sealed = text
    .trim()
    .split('\n')
    .map((raw) => {
      const one = seal(decode(raw), hash)
      t.equal(one.raw, raw)
      hash = one.hash
      return one
    })
  return { sealed, hash }
}

t.test('the example', async (t) => {
  const { sealed, hash } = sealedAgain(t, example.text)
  t.equal(hash, head)
  const records = verified(run, sealed, { seq: lines.length, hash: head })
  const [, frozen, , started] = records
  t.ok(isWhole(frozen.payload.plan as never))
  t.equal(started.effectKey, effectKey({ step: 1, phase: 'forward', ordinal: 0, attempt: 1, kind: 'bank.pay', args: canonical({ cents: 250, ö: '€' }) }))
  t.same(
    records.map(({ kind }) => kind),
    ['RunAdmitted', 'PlanFrozen', 'StepStarted', 'EffectStarted', 'EffectDone', 'StepFinished', 'RunConcluded'],
  )
})

t.test('notices are read, written again to the byte, and chained', async (t) => {
  const notices = fences(page).filter(({ line }) => page.split('\n')[line - 1].endsWith(' notices'))
  const heads = [...page.matchAll(/(?:The hash of the second|Its hash) is `([0-9a-f]{64})`/g)].map(([, hash]) => hash)
  t.equal(notices.length, 2)
  const kinds = notices.map(({ text }, index) => {
    const { sealed, hash } = sealedAgain(t, text)
    t.equal(hash, heads[index])
    return verified(decode(sealed[0].raw).run, sealed, { seq: sealed.length, hash }).map(({ kind }) => kind)
  })
  t.same(kinds, [['Swept', 'Swept'], ['HoldReleased']])
  t.match(page, wallClock.digest)
})

t.test('records of all kinds are read, written again to the byte, and chained', async (t) => {
  const vectors = fences(page).filter(({ line }) => page.split('\n')[line - 1].endsWith(' vectors'))
  const heads = [...page.slice(page.indexOf('## All kinds')).matchAll(/The hash of the last one is `([0-9a-f]{64})`/g)].map(([, hash]) => hash)
  t.equal(heads.length, vectors.length)
  const kinds = new Set(fences(page).flatMap(({ text, line }) => (/ (records|notices)$/.test(page.split('\n')[line - 1]) ? kindsOf(text) : [])))
  for (const [index, { text }] of vectors.entries()) {
    const { sealed, hash } = sealedAgain(t, text)
    t.equal(hash, heads[index])
    const own = { run: decode(sealed[0].raw).run, end: { seq: sealed.length, hash } }
    const records = verified(own.run, sealed, own.end)
    // As the plane itself reads them.
    const read = verified(own.run, sealed, own.end, lazily)
    t.same(
      read.map(({ kind, step, phase, effectKey, payload }) => ({ kind, step, phase, effectKey, payload })),
      records.map(({ kind, step, phase, effectKey, payload }) => ({ kind, step, phase, effectKey, payload })),
    )
    for (const { kind } of records) kinds.add(kind)
  }
  const listed = [...page.matchAll(/^\| ([A-Z]\w+) \| /gm)].map(([, kind]) => kind).filter((kind) => !/^(Member|Kind|Key)$/.test(kind))
  t.equal(listed.length, 33)
  t.same([...kinds].sort(), listed.sort(), 'there is none without one')
  const journal = await RunJournal.read(await stored(vectors[0].text), decode(vectors[0].text.split('\n')[0]).run)
  t.equal(journal.case, 'case_01HF7YAT00V7V4D9JM0W4Q3K5T')
  t.same(journal.undecided(), [], 'what somebody has said counts')
  t.match(journal.last('RunConcluded'), { payload: { outcome: 'abandoned' } })
  t.same(journal.subjects, ['ann', 'agent:refunds'])
})

/** A journal as rows of the state store, at the keys that the page has. */
async function stored(text: string): Promise<StateStore> {
  const state = await memoryState()
  await state.transaction((tx) => {
    let previous = CHAIN_START
    for (const [index, raw] of text.trim().split('\n').entries()) {
      const { run, case: matter } = decode(raw)
      previous = hash('sha256', Buffer.concat([Buffer.from(previous, 'hex'), Buffer.from(raw)]))
      tx.put(`record/${run}/${String(index + 1).padStart(12, '0')}`, { raw, hash: previous })
      tx.put(`head/${run}`, { seq: index + 1, hash: previous, case: matter })
    }
  })
  return state
}

function kindsOf(text: string): string[] {
  return text
    .trim()
    .split('\n')
    .map((raw) => decode(raw).kind)
}

t.test('what is not of this version is refused', async (t) => {
  const note = { seq: 1, run, epoch: 1, v: 1, kind: 'Note', text: 'x' }
  t.equal(decode(JSON.stringify(note)).payload.text, 'x')
  for (const more of [{ v: 2 }, { kind: 'Memo' }, { more: 1 }, { text: undefined }, { seq: 0 }, { phase: 'forward' }, { step: -1 }, { run: 7 }])
    t.throws(() => decode(JSON.stringify({ ...note, ...more })), JSON.stringify(more))
  t.throws(() => seal({ seq: 1, run, epoch: 1, kind: 'Note', payload: { text: 'x'.repeat(1 << 20) } }, CHAIN_START), /1048576 is the limit/)
})

t.test('every bit of the example counts', async (t) => {
  const { sealed } = sealedAgain(t, example.text)
  let found = 0
  for (const [index, { raw }] of sealed.entries()) {
    for (let bit = 0; bit < Buffer.byteLength(raw) * 8; bit++) {
      const bytes = Buffer.from(raw)
      bytes[bit >> 3] ^= 1 << (bit & 7)
      const flipped = sealed.map((one, i) => (i === index ? { ...one, raw: bytes.toString() } : one))
      try {
        verified(run, flipped, { seq: lines.length, hash: head })
      } catch {
        found++
      }
    }
  }
  t.equal(
    found,
    lines.reduce((sum, raw) => sum + Buffer.byteLength(raw) * 8, 0),
  )
})
