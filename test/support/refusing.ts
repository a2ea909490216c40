/** A plugin that refuses writes, or callers, with what is thrown at the time. */
import { definePlugin } from 'svcdb'
import type { SvcError } from 'svcdb/lib/errors'

export interface Refusals {
  /** Undefined: writes are taken. */
  write?: unknown
  /** Undefined: callers are known. */
  caller?: SvcError
}

export function refusing(state: Refusals) {
  return definePlugin({
    id: 'refusing',
    summary: 'Refuses',
    stability: 'experimental',
    setup(svc) {
      svc.ingest.admit(() => {
        if (state.write !== undefined) throw state.write
      })
      svc.auth.authenticator(() => state.caller ?? { principal: 'p', method: 'test', claims: {}, namespaces: [], admin: false })
    },
  })
}
