import { AUTH_RANK, definePlugin } from 'svcdb'

/** Lets "root" in as an admin of everything, before anybody else is asked. */
export const root = definePlugin({
  id: 'test_root',
  summary: 'Lets root in',
  stability: 'experimental',
  setup(svc) {
    svc.auth.authenticator(
      ({ header }) => (header('authorization') === 'Bearer root' ? { principal: 'root', method: 'test', claims: {}, namespaces: [], admin: true } : undefined),
      AUTH_RANK.certificate,
    )
  },
})
