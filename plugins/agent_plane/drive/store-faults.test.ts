/** A store that cannot do its work for a while: nothing of that is an answer to what a step asks, and the run goes on where it was. */
import type { StateReader, StateStore } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import t from 'tap'
import { statusOf } from '../store/runs.ts'
import { controlled, LEASE_MS, skill } from '../testing/control.ts'

const EVE = { actor: 'eve', basis: 'asserted' } as const

/** Whose reads of keys that begin with one fail, until that is taken away. */
function failing(state: StateStore, fails: { prefix?: string }): StateStore {
  const over = <R extends StateReader>(reader: R) => {
    const check = (key = '') => {
      if (fails.prefix !== undefined && key.startsWith(fails.prefix)) throw new SvcError('OVERLOADED', 'cannot read the state: nobody answers')
    }
    const get = async <T>(key: string) => {
      check(key)
      return reader.get<T>(key)
    }
    const list = async <T>(range?: { prefix?: string }) => {
      check(range?.prefix)
      return reader.list<T>(range)
    }
    return { get, list }
  }
  return {
    ...over(state),
    transaction: (body) => state.transaction((tx) => body({ ...over(tx), put: (key, value) => tx.put(key, value), delete: (key) => tx.delete(key) })),
  }
}

for (const [what, prefix] of [
  ['bytes that it has kept', 'blob-part/'],
  ['the state of its case', 'case/'],
])
  t.test(`a step whose store cannot read ${what} neither fails nor hears of it`, async (t) => {
    const fails: { prefix?: string } = {}
    const heard: unknown[] = []
    const { state, clock, driver, records } = await controlled([
      skill('reads', async (context) => {
        const digest = await context.storeBlob(Buffer.from('bytes'))
        const { version } = await context.caseState()
        await context.effect({ kind: 'fails', args: null, mutates: false }, async () => (fails.prefix = prefix))
        try {
          const text = Buffer.from(await context.readBlob(digest)).toString()
          return { text, version: await context.putCaseState(version, { text }) }
        } catch (error) {
          heard.push(error)
          throw error
        }
      }),
    ])
    const one = driver({ state: failing(state, fails) })
    const { run, epoch } = await one.admit({
      capability: 'reads',
      input: null,
      actor: 'ann',
      case: { kind: 'k', correlation: [{ namespace: 'n', value: 'v' }] },
    })
    await t.rejects(one.drive(run, epoch), /a pass over a run has ended before its time/)
    t.equal(await statusOf(state, run), 'running')
    t.same(heard, [])
    t.same(await records(run, 'EffectFailed'), [])
    t.same(await records(run, 'RunConcluded'), [])
    fails.prefix = undefined
    clock.now += LEASE_MS + 1
    t.equal(await driver({ state }).drive(run), 'succeeded')
    t.same((await driver({ state }).replay(run)).divergences, [])
    fails.prefix = prefix
    if (prefix === 'blob-part/') await t.rejects(one.replay(run), /a pass over a run has ended before its time/, 'it is no difference either')
  })

t.test('a run is not abandoned while its journal cannot be read: what it has spent is not known', async (t) => {
  const fails: { prefix?: string } = {}
  const { state, driver, run, records } = await controlled([
    skill('pays', (context) =>
      context.effect({ kind: 'pay', args: null, mutates: true, spends: { tokens: 16 } }, async ({ spend }) => {
        spend({ tokens: 15 })
        throw new Error('no answer')
      }),
    ),
  ])
  const one = driver({ state: failing(state, fails) })
  const { run: id, status } = await run(one, 'pays')
  t.equal(status, 'quarantined')
  fails.prefix = 'record/'
  await t.rejects(one.decide(id, 'abandon', EVE, 'enough'), { code: 'OVERLOADED' })
  t.equal(await statusOf(state, id), 'quarantined')
  fails.prefix = undefined
  t.equal(await one.decide(id, 'abandon', EVE, 'enough'), 'abandoned')
  t.match((await records(id, 'RunConcluded')).at(-1)?.payload, { outcome: 'abandoned', live_spend: { tokens: 15 } })
})
