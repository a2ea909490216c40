/** Texts of others that have half of a surrogate pair: JSON has no form for it, so no record may. */
import { EffectError } from 'svcdb/agents'
import t from 'tap'
import { controlled, skill } from '../testing/control.ts'

const EVE = { actor: 'eve', basis: 'asserted' } as const
const HALF = '\ud83d'
/** Of which a cut at so many characters leaves a half. */
const cutAt = (most: number): string => `${'x'.repeat(most - 1)}😀`

t.test('an error whose text is cut within a character is kept, and its effect is not done again and again', async (t) => {
  let calls = 0
  const { driver, run, records } = await controlled([
    skill('calls', (context) =>
      context.effect({ kind: 'call', args: null, mutates: false }, async () => {
        calls++
        throw new EffectError(cutAt(4096), { disposition: 'did_not_happen', permanent: true })
      }),
    ),
    skill('breaks', async () => {
      throw new Error(cutAt(4096))
    }),
    skill('half', async () => {
      throw new Error(HALF)
    }),
  ])
  for (const capability of ['calls', 'breaks', 'half']) {
    const one = driver()
    const { run: id, status } = await run(one, capability)
    t.equal(status, 'failed', capability)
    t.match(await records(id, 'RunConcluded'), [{ payload: { reason: /\ufffd|xxx/ } }])
    t.same((await one.replay(id)).divergences, [])
  }
  t.equal(calls, 1)
})

t.test('what is said about a run, and what it is begun with, is of whole characters', async (t) => {
  const { driver, run } = await controlled([
    skill('waits', async (context) => (await context.awaitEvent({ kind: 'told', withinMs: 1e9 })).payload),
    skill('doubts', (context) =>
      context.effect({ kind: 'pay', args: null, mutates: true }, async () => {
        throw new EffectError('no answer', { disposition: 'in_doubt' })
      }),
    ),
  ])
  const one = driver()
  const { run: waiting } = await run(one, 'waits')
  const { run: doubted } = await run(one, 'doubts')
  const begun = { capability: 'waits', input: null, actor: 'ann' }
  const key = { namespace: 'order', value: HALF }
  const [{ effect }] = (await one.standing(doubted)).undecided
  for (const [what, act] of Object.entries<() => Promise<unknown>>({
    cancel: () => one.cancel(waiting, EVE, HALF),
    halt: () => one.halt('tenant', HALF, EVE),
    scope: () => one.halt(`subject:${HALF}`, 'why', EVE),
    abandon: () => one.decide(doubted, 'abandon', EVE, HALF),
    reconcile: () => one.reconcile(doubted, effect, { disposition: 'did_not_happen', note: HALF }, EVE),
    capability: () => one.admit({ ...begun, capability: HALF }),
    'idempotency key': () => one.admit({ ...begun, idempotencyKey: HALF }),
    actor: () => one.admit({ ...begun, actor: HALF }),
    case: () => one.admit({ ...begun, case: { kind: 'order', correlation: [key] } }),
  }))
    await t.rejects(async () => void (await act()), { code: 'BAD_REQUEST' }, what)
  t.same(await one.cancel(waiting, EVE, 'why'), { requested_by: 'eve', recorded: true })
  t.equal(await one.drive(waiting), 'cancelled')
})
