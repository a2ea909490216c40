/** A plugin for these tests: the keys `writer`, which may do everything in the namespace `default`, and `reader`, which may read there. */
import { definePlugin } from '../../kernel/index.ts'
import { SvcError } from '../../kernel/lib/errors/index.ts'

const KEYS = ['writer', 'reader']

export default definePlugin({
  id: 'keys',
  summary: 'Knows two keys',
  stability: 'experimental',
  setup(svc) {
    svc.auth.authenticator(({ header }) => {
      const key = /^bearer (.*)$/i.exec(header('authorization') ?? '')?.[1]
      if (key === undefined || !KEYS.includes(key)) return new SvcError('UNAUTHORIZED', 'cannot let the call in: it has no key that is known')
      return { principal: key, method: 'key', claims: {}, namespaces: ['default'], admin: false }
    })
    svc.auth.authorizer(({ context, action }) =>
      context.principal === 'reader' && action !== 'read' ? new SvcError('FORBIDDEN', `cannot ${action}: the key "reader" may only read`) : undefined,
    )
  },
})
