/** Who a token says the caller is. */
import { type Clock, type Credentials, type Identity, isJwtShaped, type Logger, type Svc, tokenOf } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import type { JwtConfig } from './config.ts'
import { type ClaimRules, identityOf } from './identity.ts'
import type { IssuerKeys } from './issuer-keys.ts'
import type { VerificationKey } from './key-set.ts'
import type { JwtMetrics } from './metrics.ts'
import { TokenRefused } from './refusal.ts'
import type { Settings } from './settings.ts'
import { TokenCache } from './token-cache.ts'
import { UsedTokens } from './used-tokens.ts'
import { Verifier } from './verifier.ts'

interface AuthenticatorOptions {
  config: JwtConfig
  settings: Pick<Settings, 'algorithms'>
  /** Whether what fails here is left to the authenticators behind. */
  chained: boolean
  metrics: JwtMetrics
}

export class TokenAuthenticator {
  private readonly clock: Clock
  private readonly log: Logger
  private readonly metrics: JwtMetrics
  private readonly chained: boolean
  private readonly options: AuthenticatorOptions
  private readonly rules: ClaimRules
  private readonly cache: TokenCache
  private readonly used: UsedTokens | undefined
  private verifier: Verifier | undefined
  private issuerKeys: IssuerKeys | undefined

  constructor(svc: Pick<Svc, 'clock' | 'log' | 'server'>, options: AuthenticatorOptions) {
    const { config, chained, metrics } = options
    this.clock = svc.clock
    this.log = svc.log
    this.metrics = metrics
    this.chained = chained
    this.options = options
    const clockSkewMs = config.clock_skew_secs * 1000
    this.rules = { roleClaim: config.role_claim, principalClaim: config.principal_claim, multiTenancy: svc.server.multi_tenancy, clockSkewMs }
    const times = { clockSkewMs, now: () => this.clock.now() }
    this.cache = new TokenCache({ ...times, monotonic: () => this.clock.monotonic() })
    if (config.reject_replayed_jti) this.used = new UsedTokens({ ...times, max: config.max_used_tokens })
  }

  /** With it tokens can be verified. */
  open(keys: { staticKey?: VerificationKey; issuerKeys?: IssuerKeys }): void {
    const { config, settings } = this.options
    const { issuer, audience, clock_skew_secs: clockSkewSecs } = config
    this.issuerKeys = keys.issuerKeys
    this.verifier = new Verifier({ ...keys, algorithms: settings.algorithms, issuer, audience, clockSkewSecs, now: () => this.clock.now() })
  }

  /** The keys are others, or are known to be the same: nothing counts as verified. */
  forget(): void {
    this.cache.drop()
  }

  authenticate(credentials: Credentials): Identity | SvcError | undefined | Promise<Identity | SvcError | undefined> {
    const token = tokenOf(credentials)
    if (token === undefined || !isJwtShaped(token)) return undefined
    // A token for one call is never one that was seen before.
    if (this.used !== undefined) return this.verify(token, undefined)
    const key = this.cache.keyOf(token)
    const known = this.cache.get(key)
    if (known === undefined) return this.verify(token, key)
    this.metrics.verifications.inc({ result: 'cached' })
    return known
  }

  /** Whether the issuer has taken back what verified a token; undefined for a key that nobody takes back. */
  private withdrawal({ print }: VerificationKey): (() => boolean) | undefined {
    const { issuerKeys } = this
    return print === undefined || issuerKeys === undefined ? undefined : () => !issuerKeys.holds(print)
  }

  private async verify(token: string, key: string | undefined): Promise<Identity | SvcError | undefined> {
    const keep = key === undefined ? undefined : this.cache.admission(key)
    try {
      if (this.verifier === undefined) throw new SvcError('DATABASE_CLOSED', 'tokens cannot be verified: the server is starting; retry when /ready answers 200')
      const { claims, key: by } = await this.verifier.verify(token)
      const identity = identityOf(claims, this.rules, this.withdrawal(by))
      this.used?.use(identity.claims, identity.expiresAt as number, identity.namespaces)
      keep?.(identity, this.issuerKeys?.goodUntil ?? Number.POSITIVE_INFINITY)
      this.metrics.verifications.inc({ result: 'ok' })
      return identity
    } catch (error) {
      if (!(error instanceof TokenRefused)) throw error
      this.metrics.verifications.inc({ result: error.kind })
      this.log.debug({ result: error.kind, cause: error.message }, 'token refused')
      return this.chained ? undefined : error.toSvcError()
    }
  }
}
