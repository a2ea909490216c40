import { AUTH_RANK, definePlugin } from 'svcdb'
import { configSchema } from './config.ts'
import { openJwt } from './service.ts'

export default definePlugin({
  id: 'jwt',
  summary: 'Authenticates callers by JSON web tokens: of a shared secret, a public key, or an OpenID Connect issuer',
  stability: 'stable',
  section: '',
  config: configSchema,
  provides: ['jwt'],
  setup(svc, { auth }) {
    const { authenticator, service, start } = openJwt(svc, auth)
    svc.auth.authenticator((credentials) => authenticator.authenticate(credentials), AUTH_RANK.token)
    svc.provide('jwt', service)
    svc.start(start)
    svc.stop(() => authenticator.forget())
  },
})
