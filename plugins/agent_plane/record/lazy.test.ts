import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { DoneRecord, lazily, StartedRecord } from './lazy.ts'
import { effectKey, newRunId } from './names.ts'
import { decode, type JournalRecord, type NewRecord, seal } from './record.ts'

const RUN = newRunId(1_700_000_000_000, () => 0.3)
const CASE = 'case_01HF7YAT00V7V4D9JM0W4Q3K5T'
const KEY = effectKey({ step: 1, phase: 'forward', ordinal: 0, attempt: 1, kind: 'a', args: 'null' })
const DECLARED = { trust: 'untrusted', sensitivity: 'internal' }

const started = (descriptor: object, more: object = {}, rest: Partial<NewRecord> = {}): NewRecord => ({
  kind: 'EffectStarted',
  step: 1,
  effectKey: KEY,
  payload: { descriptor, recovery: { mode: 'retry' }, mutates: false, attempt: 1, backoff_ms: 0, ...more },
  ...rest,
})
const done = (output: unknown, more: object = {}, rest: Partial<NewRecord> = {}): NewRecord => ({
  kind: 'EffectDone',
  step: 12,
  effectKey: KEY,
  payload: { output, declared: DECLARED, ...more },
  ...rest,
})

const textOf = (record: NewRecord, seq = 7): string => seal({ ...record, run: RUN, epoch: 3, seq }, '0'.repeat(64)).raw
/** What others see of a record. */
const seen = ({ seq, run, epoch, kind, step, phase, effectKey, case: matter, payload }: JournalRecord) => ({
  seq,
  run,
  epoch,
  kind,
  step,
  phase,
  effectKey,
  case: matter,
  payload,
})

t.test('what is read as far as it is asked for is what is read as a whole', async (t) => {
  const tricky = [
    null,
    'a',
    '","epoch":3,"kind":"EffectDone","output":1',
    { effect_key: KEY, epoch: 3, kind: 'EffectStarted', mutates: true, recovery: { mode: 'retry' }, run: RUN, seq: 7, step: 1, v: 1 },
    { phase: 'compensating' },
    [{ run: RUN, seq: 7, step: 12, v: 1 }],
    { a: `,"run":"${RUN}","seq":7,"step":1,"v":1}` },
    { args: 1, kind: 'svc.sleep' },
  ]
  const places: Partial<NewRecord>[] = [{}, { phase: 'compensating' }, { case: CASE }, { step: 0 }, { step: 123 }]
  for (const place of places)
    for (const value of tricky) {
      const records = [
        ...['pay', 'svc.sleep', 'a"b', 'a","effect_key":"'].map((kind) => started({ kind, args: value }, {}, place)),
        started({ kind: 'a', args: value }, { attempt: 2 }, place),
        started({ kind: 'a', args: value }, { backoff_ms: 10 }, place),
        started({ kind: 'a', args: value }, { mutates: true, recovery: { mode: 'idempotent', key: `${RUN}:${KEY.slice(0, 32)}` }, outbound_bytes: 4 }, place),
        started({ kind: 'a', args: value }, { mutates: true, recovery: { mode: 'idempotent', key: `${RUN}:${KEY.slice(0, 32)}` } }, place),
        done(value, {}, place),
        done(value, { source: 'x' }, place),
        done(value, { spend: { tokens: 1 } }, place),
        done(value, { elapsed_ms: 1 }, place),
        done(value, { declared: { trust: 'trusted', sensitivity: 'public' } }, place),
      ]
      for (const record of records) {
        const raw = textOf(record)
        t.same(seen(lazily(raw, RUN, 7)), seen(decode(raw)), raw)
      }
    }
})

t.test('those that are mostly there are read so, and an effect is known by its text', async (t) => {
  const begun = lazily(textOf(started({ kind: 'pay', args: { a: 1 } })), RUN, 7)
  t.ok(begun instanceof StartedRecord)
  t.equal((begun as StartedRecord).effectKind, 'pay')
  t.ok((begun as StartedRecord).isOf('{"args":{"a":1},"kind":"pay"}'))
  for (const other of ['{"args":{"a":2},"kind":"pay"}', '{"args":{"a":1},"kind":"pa', '{"args":{"a":1},"kind":"pay"'])
    t.notOk((begun as StartedRecord).isOf(other), other)
  t.equal((lazily(textOf(started({ kind: 'svc.now', args: null })), RUN, 7) as StartedRecord).effectKind, 'svc.now')
  t.ok(lazily(textOf(started({ kind: 'pay', args: 1 }, {}, { case: CASE })), RUN, 7) instanceof StartedRecord)
  t.ok(lazily(textOf(done({ ok: true })), RUN, 7) instanceof DoneRecord)
  t.ok(lazily(textOf(done({ ok: true }, {}, { case: CASE })), RUN, 7) instanceof DoneRecord)
})

t.test('what is no record is refused all the same, whatever is changed in it', async (t) => {
  const random = seeded(11)
  const texts = [textOf(started({ kind: 'pay', args: { a: 1 } })), textOf(done({ ok: true }))]
  let refused = 0
  for (let n = 0; n < 4000; n++) {
    const raw = texts[n % 2]
    const at = Math.floor(random() * raw.length)
    const changed = raw.slice(0, at) + String.fromCharCode(32 + Math.floor(random() * 95)) + raw.slice(at + (random() < 0.5 ? 1 : 0))
    let whole: unknown
    try {
      whole = seen(decode(changed))
    } catch {
      refused++
      continue
    }
    try {
      t.same(seen(lazily(changed, RUN, 7)), whole, changed)
    } catch (error) {
      t.fail(`${changed}: ${(error as Error).message}`)
    }
  }
  t.ok(refused > 100)
})
