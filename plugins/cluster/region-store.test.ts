/** The table of regions as it is read while it changes. */
import type { StateStore } from 'svcdb'
import { SharedState } from 'svcdb/testkit'
import t from 'tap'
import { RegionStore } from './region-store.ts'

t.test('version and regions are of one moment', async (t) => {
  const store = new SharedState().of('cluster')
  const region = (region_id: number) => ({ region_id, state: 'active', leader_node_id: 1, replica_node_ids: [1] }) as never
  const writer = new RegionStore(() => store, 10)
  await writer.create(region(1))
  // Another node changes the table between the two reads.
  const between: StateStore = {
    ...store,
    get: async (key) => {
      await writer.create(region(2))
      return store.get(key)
    },
    list: (range) => store.list(range),
    transaction: (body) => store.transaction(body),
  }
  const { version, regions } = await new RegionStore(() => between, 10).read()
  t.equal(regions.length, version)
})
