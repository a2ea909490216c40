/** The parts of the plugin, put together from its config. */
import type { Svc } from 'svcdb'
import { TokenAuthenticator } from './authenticator.ts'
import type { AuthConfig } from './config.ts'
import type { IssuerKeys } from './issuer-keys.ts'
import { openKeys } from './keys.ts'
import { jwtMetrics } from './metrics.ts'
import { settingsOf } from './settings.ts'

/** The service `jwt`: that it is there says that tokens are accepted. */
interface JwtService {
  /** What the claim iss must be, if it matters. */
  readonly issuer: string | undefined
  /** Whether what fails as a token is tried as an API key. */
  readonly chained: boolean
}

interface Jwt {
  authenticator: TokenAuthenticator
  service: JwtService
  start(): Promise<void>
}

/** Declares; reads and fetches nothing. @throws Error naming the keys of the section that do not go together. */
export function openJwt(svc: Svc, { jwt, chain_auth: chained }: AuthConfig): Jwt {
  let issuerKeys: IssuerKeys | undefined
  const metrics = jwtMetrics(svc.metrics, () => issuerKeys)
  if (jwt === undefined)
    throw new Error('it needs a section [auth.jwt] that says what tokens are verified with, and there is none; add it, or remove the plugin')
  const settings = settingsOf(jwt)
  const authenticator = new TokenAuthenticator(svc, { config: jwt, settings, chained, metrics })
  return {
    authenticator,
    service: { issuer: jwt.issuer, chained },
    async start() {
      for (const warning of settings.warnings) svc.log.warn(warning)
      const refreshed = () => authenticator.forget()
      const keys = await openKeys(svc, settings, {
        ttlMs: jwt.jwks_cache_ttl_secs * 1000,
        waitMs: jwt.jwks_wait_secs * 1000,
        unknownMs: jwt.jwks_unknown_key_secs * 1000,
        metrics,
        refreshed,
      })
      issuerKeys = keys.issuerKeys
      authenticator.open(keys)
    },
  }
}
