/** What a plugin holds back from retention is safe from the first pass of maintenance after a start, which comes before any plugin can say so. */

import { definePlugin } from 'svcdb'
import { boot } from 'svcdb/testkit'
import t from 'tap'
import { testContext } from '../../storage/conformance/index.ts'
import { createEngine } from '../../storage/memory/index.ts'

t.test('everything is held until all plugins have started', async (t) => {
  const engine = createEngine(testContext({}, Date.now))
  const holds = new Set<(namespace: string, measurement: string) => bigint | undefined>()
  const seen: Record<string, (bigint | undefined)[]> = {}
  const note = (when: string): void => {
    seen[when] = [...holds].map((hold) => hold('default', 'cpu'))
  }
  const open = engine.open.bind(engine)
  engine.open = async () => {
    note('open')
    await open()
  }
  engine.holdRetention = (hold) => {
    holds.add(hold)
    return () => void holds.delete(hold)
  }
  const holder = definePlugin({
    id: 'holder',
    summary: 'Holds raw data back',
    stability: 'beta',
    capabilities: ['points'],
    async setup(svc) {
      svc.start(() => {
        note('start')
        svc.storage.holdRetention(() => 5n)
      })
    },
  })
  const node = await boot({ plugins: [holder], storage: engine })
  t.teardown(() => node.stop())
  note('ready')
  const everything = -(2n ** 63n)
  t.same(seen, { open: [everything], start: [everything], ready: [5n] })
})
