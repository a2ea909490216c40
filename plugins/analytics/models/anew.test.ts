/** A model that another node has deleted and made anew by the same name while this one was training the one before. */
import { mapState } from 'svcdb/testkit'
import t from 'tap'
import type { Trained } from './compute.ts'
import { type Definition, keyOf } from './definition.ts'
import type { KeptModel } from './record.ts'
import { Registry } from './registry.ts'

const KEY = `model/${keyOf('', 'm', 'a')}`
const accuracy = { points: 1, mse: 0, rmse: 0, mae: 0, mape: 0, r_squared: 1 }
const TRAINED = {
  state: { kind: 'holt', text: 'of before' },
  algorithm: 'holt',
  start: 0n,
  end: 1n,
  interval: 1n,
  points: 1,
  bridged: 0,
  accuracy,
} as unknown as Trained
const made = (field: string, created_at: number): KeptModel =>
  ({
    definition: { namespace: '', measurement: 'm', name: 'a', field, parameters: {} } as unknown as Definition,
    created_at,
    next_version: 2,
    versions: [{ version: 1 }],
  }) as KeptModel

for (const isTold of [false, true])
  t.test(`gets no version of the one before, ${isTold ? 'when' : 'before'} this node has heard of it`, async (t) => {
    let told = (_: readonly string[]): void => {}
    const state = Object.assign(mapState(), {
      async watch(_: readonly string[], tell: typeof told) {
        told = tell
        return () => {}
      },
    })
    await state.transaction((tx) => tx.put(KEY, made('old', 1)))
    const registry = new Registry({ inAll: 10, versions: 5 })
    await registry.open(state, (error) => {
      throw error
    })
    const entry = registry.get('', 'm', 'a') as NonNullable<ReturnType<Registry['get']>>
    await state.transaction((tx) => tx.put(KEY, made('new', 2)))
    const field = () => (registry.get('', 'm', 'a')?.kept.definition as unknown as { field: string } | undefined)?.field
    const hear = async () => {
      told([KEY])
      while (field() !== 'new') await new Promise((resolve) => setImmediate(resolve))
    }
    if (isTold) await hear()
    await t.rejects(registry.putVersion(entry, TRAINED, { found: 1, now: 3, asChampion: true }), { code: 'NOT_FOUND', message: /was deleted meanwhile/ })
    await registry.update(entry, (kept) => ({ ...kept, last_error: 'of before' }))
    t.same(await state.get(KEY), made('new', 2))
    t.equal(entry.alive, false)
    await hear()
    t.same([registry.size, registry.count('')], [1, 1])
  })
