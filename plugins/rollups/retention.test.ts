import { SharedState } from 'svcdb/testkit'
import t from 'tap'
import { definitionOf } from './definition.ts'
import { Registry } from './registry.ts'
import { trim } from './retention.ts'

const HOUR = 3_600_000_000_000n
const limits = { perNamespace: 10, perSource: 10, tiers: 10, inAll: 10, dirtyRanges: 64 }
const watcher = { made() {}, deleted() {}, failed() {} }
const body = { every: '1h', aggregations: ['sum'] }

t.test('a crash behind a trim leaves tiers above what they have', async (t) => {
  const state = new SharedState().of('rollups')
  const open = async (): Promise<Registry> => {
    const registry = new Registry(limits)
    await registry.open(state, { now: 'a-1', shared: false }, watcher)
    return registry
  }
  const registry = await open()
  const names = { name: 'hourly', source_measurement: 'cpu', target_measurement: 'cpu_1h' }
  const hourly = await registry.create(definitionOf({ ...body, ...names, retention_seconds: 7200 }, '', 0n))
  const tier = await registry.create(definitionOf({ ...body, name: 'tier', source_measurement: 'cpu_1h', target_measurement: 'cpu_2h', every: '2h' }, '', 0n))
  for (const rollup of [hourly, tier]) rollup.done([0n, 10n * HOUR], true)
  await registry.save(undefined)
  const svc = { clock: { nowNanos: () => 20n * HOUR }, storage: { delete: () => Promise.reject(new Error('killed')) } }
  const trimmed = trim(
    svc as never,
    registry,
    () => undefined,
    (_, act) => act(),
    new AbortController().signal,
  )
  await t.rejects(trimmed, { message: 'killed' })
  const again = (await open()).get('', 'tier')
  // The delete is heard of once more, and must not have the buckets computed from what it has left.
  t.ok(again?.mark(undefined, 8n * HOUR))
  again?.clip(undefined)
  t.same(again?.dirty, [])
})
