import { AUTH_RANK, definePlugin } from 'svcdb'
import { type AuthConfig, configSchema } from './config.ts'
import { openJwt } from './service.ts'
import { settingsOf } from './settings.ts'
import { publicKey } from './static-key.ts'

export default definePlugin({
  id: 'jwt',
  summary: 'Authenticates callers by JSON web tokens: of a shared secret, a public key, or an OpenID Connect issuer',
  stability: 'stable',
  section: '',
  config: configSchema,
  provides: ['jwt'],
  // An issuer may be away now and there when the server starts: it is not asked.
  async check({ section }) {
    const { jwt } = (section as { auth: AuthConfig }).auth
    if (jwt?.public_key_pem_file !== undefined) await publicKey(jwt.public_key_pem_file, settingsOf(jwt).algorithms)
  },
  setup(svc, { auth }) {
    const { authenticator, service, start } = openJwt(svc, auth)
    svc.auth.authenticator((credentials) => authenticator.authenticate(credentials), AUTH_RANK.token)
    svc.provide('jwt', service)
    svc.start(start)
    svc.stop(() => authenticator.forget())
  },
})
