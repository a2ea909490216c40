import type { StateRange, StateReader, StateStore } from 'svcdb'
import { SharedState } from 'svcdb/testkit'
import t from 'tap'
import { definitionOf } from './definition.ts'
import { Registry } from './registry.ts'

const limits = { perNamespace: 1000, perSource: 1000, tiers: 16, inAll: 1000, dirtyRanges: 64 }
const watcher = { made() {}, deleted() {}, failed() {} }
const named = (name: string) => definitionOf({ name, source_measurement: 'cpu', target_measurement: `cpu_${name}`, every: '1h', aggregations: ['sum'] }, '', 0n)

t.test('what is read to make a rollup does not grow with those there are, unless another node may have made some', async (t) => {
  for (const shared of [false, true]) {
    const state = new SharedState().of('rollups')
    let most = 0
    const counted = ({ list }: StateReader): StateReader['list'] => {
      return async <T>(range?: StateRange) => {
        const found = await list<T>(range)
        most = Math.max(most, found.length)
        return found
      }
    }
    const store: StateStore = { ...state, list: counted(state), transaction: (body) => state.transaction((tx) => body({ ...tx, list: counted(tx) })) }
    const registry = new Registry(limits)
    await registry.open(store, { now: 'a-1', shared }, watcher)
    for (let i = 0; i < 300; i++) await registry.create(named(String(i)))
    t.ok(most <= (shared ? 16 : 0), `${most} at once`)
    await t.rejects(registry.create(named('7')), { code: 'CONFLICT' })
    if (!shared) continue
    most = 0
    // Of another node, not heard of.
    const other = new Registry(limits)
    await other.open(state, { now: 'b-1', shared }, watcher)
    await other.create(named('foreign'))
    await t.rejects(registry.create(named('foreign')), { code: 'CONFLICT' })
    t.ok(most <= 16, `${most} at once`)
  }
})
