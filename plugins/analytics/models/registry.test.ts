/** Models of two nodes that share their state. */
import type { StateStore } from 'svcdb'
import { mapState } from 'svcdb/testkit'
import t from 'tap'
import type { Trained } from './compute.ts'
import type { Definition } from './definition.ts'
import { type ModelEntry, Registry } from './registry.ts'

type Told = (keys: readonly string[] | undefined) => void

/** A state store of two processes: what one commits the other is told. */
function twoProcesses(): [StateStore, StateStore] {
  const state = mapState()
  const told: (Told | undefined)[] = []
  const of = (own: number): StateStore => ({
    ...state,
    watch: async (_prefixes, one) => {
      told[own] = one
      return () => void delete told[own]
    },
    async transaction(body) {
      const keys: string[] = []
      const result = await state.transaction((tx) =>
        body({
          ...tx,
          put(key, value) {
            keys.push(key)
            tx.put(key, structuredClone(value))
          },
          delete(key) {
            keys.push(key)
            tx.delete(key)
          },
        }),
      )
      told[1 - own]?.(keys.filter((key) => key.startsWith('model/')))
      return result
    },
  })
  return [of(0), of(1)]
}

const definition: Definition = { namespace: '', name: 'load', measurement: 'cpu', field: 'load', tags: {}, model: 'ses', parameters: {}, range: {} }
const accuracy = { points: 2, mse: 1, rmse: 1, mae: 1, mape: 1, r_squared: 1 }
const trained = (level: number): Trained => ({
  ...{ state: { kind: 'Ses', text: JSON.stringify({ kind: 'Ses', level }) }, algorithm: 'ses', start: 0n, end: 1n, interval: 1n },
  ...{ points: 2, bridged: 0, moved: 0, accuracy },
})
const settled = async (done: () => boolean): Promise<void> => {
  for (let i = 0; i < 12_000 && !done(); i++) await new Promise((resolve) => setTimeout(resolve, 5))
}

t.test('what one node does to a model the other knows', async (t) => {
  const states = twoProcesses()
  const [a, b] = [new Registry({ inAll: 10, versions: 3 }), new Registry({ inAll: 10, versions: 3 })]
  for (const [i, each] of [a, b].entries()) await each.open(states[i], (error) => t.fail(error.message))
  t.teardown(() => Promise.all([a.close(), b.close()]))
  const made = { found: 2, now: 1, check: () => {} }
  const ofA = await a.create(definition, trained(1), made)
  await settled(() => b.size === 1)
  const ofB = b.get('', 'cpu', 'load') as ModelEntry
  t.same(ofB.kept, ofA.kept)
  await t.rejects(new Registry({ inAll: 10, versions: 3 }).create(definition, trained(1), made), { code: 'DATABASE_CLOSED' })

  // Each adds a version at the same time: none is lost.
  await Promise.all([
    a.putVersion(ofA, trained(2), { found: 2, now: 2, asChampion: false }),
    b.putVersion(ofB, trained(3), { found: 2, now: 3, asChampion: false }),
  ])
  await settled(() => ofA.kept.versions.length === 3 && ofB.kept.versions.length === 3)
  t.same(ofA.kept, ofB.kept)
  t.same(
    ofA.kept.versions.map(({ version, tag }) => `${version} ${tag}`),
    ['1 Champion', '2 Retired', '3 Challenger'],
  )
  t.match(JSON.parse((await b.readState(ofB, ofB.kept.versions[1])).text), { level: 2 })

  await b.delete(ofB)
  await settled(() => a.size === 0)
  t.equal(a.get('', 'cpu', 'load'), undefined)
  t.equal(ofA.alive, false)
  await a.update(ofA, (kept) => ({ ...kept, drift_score: 1 }))
  t.same(await states[0].list(), [], 'a model that is gone does not come back')
  await t.rejects(a.putVersion(ofA, trained(4), { found: 2, now: 4, asChampion: false }), { code: 'NOT_FOUND' })
})
