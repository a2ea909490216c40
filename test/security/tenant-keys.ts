/** A plugin for these tests: who may do what to which namespace is the key's own name. */

import { definePlugin, tokenOf } from 'svcdb'
import { NAMESPACE } from './secrets.ts'

/** Before the plugins that would refuse what is no key of theirs. */
const FIRST = 1
const KEYS: Record<string, { namespaces: readonly string[]; admin: boolean }> = {
  alice: { namespaces: ['acme'], admin: false },
  bob: { namespaces: [NAMESPACE], admin: false },
  own: { namespaces: ['acme'], admin: true },
  root: { namespaces: [], admin: true },
}

export default definePlugin({
  id: 'tenant_keys',
  summary: 'Knows a key for each tenant',
  stability: 'experimental',
  setup(svc) {
    svc.auth.authenticator((credentials) => {
      const token = tokenOf(credentials)
      const known = token === undefined || !Object.hasOwn(KEYS, token) ? undefined : KEYS[token]
      // Both tenants call themselves the same: a name is no proof.
      return known === undefined ? undefined : { principal: 'client', method: 'key', claims: {}, ...known }
    }, FIRST)
  },
})
