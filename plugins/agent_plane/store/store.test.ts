import { definePlugin, type StateStore } from 'svcdb'
import { boot } from 'svcdb/testkit'
import t from 'tap'
import { caseRules } from '../testing/case-conformance.ts'
import { rules } from '../testing/conformance.ts'
import { controlRules } from '../testing/control-conformance.ts'
import { keptRules } from '../testing/kept-conformance.ts'
import { taskRules } from '../testing/tasks.ts'
import { tenantReader, tenantState } from './tenant.ts'

t.setTimeout(300_000)

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
    for (const tenant of ['default', 'acme'])
      for (const [index, [rule, body]] of [...rules, ...controlRules, ...caseRules, ...keptRules, ...taskRules].entries())
        await t.test(`${rule} (${tenant})`, (t) => body(t, tenantState(held.state?.(`plane_${index}`) as StateStore, tenant)))

    await t.test('tenants see their own keys', async (t) => {
      const whole = held.state?.('tenants') as StateStore
      const [first, second, third] = ['default', 'acme', 'acme.b'].map((tenant) => tenantState(whole, tenant))
      const keys = async (state: Pick<StateStore, 'list'>, range: object) => (await state.list({ prefix: 'k/', ...range })).map(({ key }) => key)
      await second.transaction((tx) => ['k/1', 'k/2', 'k/3'].forEach((key) => void tx.put(key, 'acme')))
      await third.transaction((tx) => tx.put('k/2', 'b'))
      t.same(await keys(first, {}), [])
      t.same(await keys(second, { start: 'k/2', limit: 1 }), ['k/2'])
      t.same(await keys(second, { end: 'k/3' }), ['k/1', 'k/2'])
      t.equal(await third.get('k/2'), 'b')
      t.equal(await third.get('k/1'), undefined)
      t.same(await keys(tenantReader(whole, 'acme'), {}), ['k/1', 'k/2', 'k/3'])
      await second.transaction(async (tx) => {
        t.same(await keys(tx, {}), ['k/1', 'k/2', 'k/3'])
        tx.delete('k/2')
      })
      t.same(await keys(second, {}), ['k/1', 'k/3'])
      t.equal(await third.get('k/2'), 'b')
      t.same(await keys(tenantReader(whole, 'default'), {}), [], 'and what was there before tenants lies where it lay')
      await whole.transaction((tx) => tx.put('k/0', 'old'))
      t.same(await keys(first, {}), ['k/0'])
    })
  })
}
