import { definePlugin, type StateStore } from 'svcdb'
import { boot } from 'svcdb/testkit'
import t from 'tap'
import { rules } from '../testing/conformance.ts'

for (const storage of ['memory', 'embedded']) {
  t.test(storage, async (t) => {
    const held: { state?: (owner: string) => StateStore } = {}
    const owner = definePlugin({
      id: 'owner',
      summary: 'Has a state store',
      stability: 'experimental',
      capabilities: ['state'],
      setup: (svc) => svc.ready(() => void (held.state = (name) => svc.storage.state(name))),
    })
    const node = await boot({ plugins: [owner], storage })
    t.teardown(() => node.stop())
    for (const [index, [rule, body]] of rules.entries()) await t.test(rule, (t) => body(t, held.state?.(`plane_${index}`) as StateStore))
  })
}
