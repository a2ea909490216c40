/** Tenants of tests: a bearer token is the name of the namespace, which it administers. */
import { definePlugin } from 'svcdb'

export const tenants = definePlugin({
  id: 'test_tenants',
  summary: 'Lets admins of namespaces in by their names',
  stability: 'experimental',
  setup(svc) {
    svc.auth.authenticator(({ header }) => {
      const token = header('authorization')?.replace('Bearer ', '')
      return token === undefined ? undefined : { principal: token, method: 'test', claims: {}, namespaces: [token], admin: true }
    })
  },
})
