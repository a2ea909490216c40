/** Plugins that do nothing without their section. */
import { boot } from 'svcdb/testkit'
import t from 'tap'
import { Type } from '../index.ts'
import { definePlugin } from '../plugin.ts'

const hooks = definePlugin({
  id: 'hooks',
  summary: 'Has a route',
  stability: 'beta',
  needsSection: true,
  requires: ['helper'],
  config: Type.Object({ word: Type.String({ default: 'yes', description: 'What it says' }) }),
  setup(svc, config) {
    svc.http.get('/hooks', async () => ({ word: config.word }))
  },
})
const helper = definePlugin({ id: 'helper', summary: 'Helps', stability: 'beta', setup() {} })

t.test('without its section a plugin has no routes, and needs no others', async (t) => {
  const node = await boot({ plugins: [hooks] })
  t.teardown(() => node.stop())
  t.equal((await node.inject('/hooks')).statusCode, 404)
  t.same(
    node.node.config.plugins.map(({ id }) => id),
    [],
  )
})

t.test('an empty section is one', async (t) => {
  const node = await boot({ plugins: [hooks, helper], config: { hooks: {} } })
  t.teardown(() => node.stop())
  t.same((await node.inject('/hooks')).json(), { word: 'yes' })
})

t.test('with it, what it requires must be there, and its keys are checked', async (t) => {
  await t.rejects(boot({ plugins: [hooks], config: { hooks: {} } }), /requires "helper"/)
  await t.rejects(boot({ plugins: [hooks, helper], config: { hooks: { wort: 'x' } } }), /did you mean "word"/)
})

t.test('who requires one that has no section is told to add it', async (t) => {
  const user = definePlugin({ id: 'user', summary: 'Uses it', stability: 'beta', requires: ['hooks'], setup() {} })
  await t.rejects(boot({ plugins: [hooks, helper, user] }), {
    message: 'cannot run plugin "user": it requires "hooks", which plugin "hooks" provides where the file has its section; add [hooks]',
  })
})

t.test('a plugin without a section of its own cannot need one', (t) => {
  t.throws(() => definePlugin({ id: 'none', summary: 's', stability: 'beta', section: '', needsSection: true, setup() {} }), /has none of its own/)
  t.end()
})
