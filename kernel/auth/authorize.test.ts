/** What a call does beside what it was admitted for. */
import t from 'tap'
import { SvcError } from '../lib/errors/index.ts'
import { definePlugin } from '../plugin.ts'
import { boot } from '../testkit/index.ts'
import type { Decision } from './auth.ts'

t.test('authorizers are asked, and observers told', async (t) => {
  const decisions: Decision[] = []
  const plugin = definePlugin({
    id: 'asks',
    summary: 'Asks for more',
    stability: 'beta',
    setup(svc) {
      svc.auth.authenticator(() => ({ principal: 'ann', method: 'test', claims: {}, namespaces: [], admin: false }))
      svc.auth.authorizer(({ action }) => (action === 'delete' ? new SvcError('FORBIDDEN', 'cannot delete as "ann"') : undefined))
      svc.auth.observer((decision) => void decisions.push({ ...decision }))
      svc.http.post('/may/:action', async (request) => {
        await svc.auth.authorize(svc.context(request), request.params.action, '/things/:name')
        return { may: true }
      })
    },
  })
  const node = await boot({ plugins: [plugin] })
  t.teardown(() => node.stop())
  const may = (action: string) => node.inject({ method: 'POST', url: `/may/${action}` })
  t.same((await may('read')).json(), { may: true })
  t.match(await may('delete'), { statusCode: 403, body: /cannot delete as/ })
  t.match(await may('admin'), { statusCode: 403, body: /an admin credential is needed/ })
  const told = decisions.filter(({ resource }) => resource === '/things/:name').map(({ outcome, action, stage }) => `${outcome} ${action} ${stage}`)
  t.same(told, ['allow read authorization', 'deny delete authorization', 'deny admin authorization'])
})

t.test('an open node lets everything pass', async (t) => {
  const plugin = definePlugin({
    id: 'asks',
    summary: 'Asks for more',
    stability: 'beta',
    setup(svc) {
      svc.http.get('/may', async (request) => {
        await svc.auth.authorize(svc.context(request), 'admin', '/things')
        return { may: true }
      })
    },
  })
  const node = await boot({ plugins: [plugin] })
  t.teardown(() => node.stop())
  t.equal((await node.inject('/may')).statusCode, 200)
})
