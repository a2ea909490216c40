/** The limits and bans as auth asks for them. */
import { setImmediate as turn } from 'node:timers/promises'
import {
  AUDIT_LOG,
  type AuditLog,
  type Authorization,
  type CallContext,
  type Credentials,
  type Decision,
  NAMESPACES,
  type NamespaceDirectory,
  type Svc,
} from 'svcdb'
import type { SvcError } from 'svcdb/lib/errors'
import { callerOf, Networks, plainAddress } from './address.ts'
import type { RateLimitConfig } from './config.ts'
import { ForwardedAddress } from './forwarded.ts'
import { rateOf } from './gcra.ts'
import { Limits, namespaceRate, type Refusal } from './limits.ts'
import { type Ban, Lockout } from './lockout.ts'
import { type RateLimitMetrics, rateLimitMetrics } from './metrics.ts'
import { refused, shutOut } from './refusals.ts'

/** A namespace that the config does not name may have so many times what one address may. */
const NAMESPACE_FACTOR = 10
/** Whoever has closed the connection before the request was looked at. */
const NO_ADDRESS = 'unknown'

export class Guard {
  readonly lockout: Lockout
  private readonly svc: Svc
  private readonly config: RateLimitConfig
  private readonly limits: Limits
  private readonly metrics: RateLimitMetrics
  private readonly forwarded: ForwardedAddress | undefined
  private readonly exempt: Networks
  private readonly proxies: Networks
  private namespaces: NamespaceDirectory | undefined
  private fullSaid = false

  constructor(svc: Svc, config: RateLimitConfig) {
    this.svc = svc
    this.config = config
    this.proxies = new Networks(config.trusted_proxies, 'rate_limit.trusted_proxies')
    this.exempt = new Networks(config.ban_exempt, 'rate_limit.ban_exempt')
    this.forwarded = config.trust_proxy_headers ? new ForwardedAddress(config.proxy_header, this.proxies) : undefined
    this.lockout = new Lockout({
      maxFailures: config.max_auth_failures,
      lockoutMs: config.lockout_duration_seconds * 1000,
      maxTracked: config.max_tracked_keys,
    })
    this.limits = new Limits({
      address: rateOf(config.requests_per_second, config.burst_size),
      global: rateOf(config.rate_limit_rps, config.rate_limit_burst),
      principal: rateOf(config.per_user_rate_limit_rps, config.per_user_rate_limit_burst),
      namespace: namespaceRate({ ...namespaceRates(config), quota: (name) => this.directory()?.get(name)?.quota }),
      maxTracked: config.max_tracked_keys,
    })
    this.metrics = rateLimitMetrics(svc.metrics, {
      banned: () => this.lockout.banned(svc.clock.monotonic()),
      tracked: () => ({ ...this.limits.tracked(), failing: this.lockout.failing }),
    })
  }

  /** The caller's own address, for all that look at the credentials from here on. */
  source(given: Credentials): Credentials {
    const peer = given.address
    const address = peer === undefined || this.forwarded === undefined ? peer : this.forwarded.of(peer, (name) => given.header(name))
    // Over gRPC the address goes with the connection, which a caller may close before it has failed.
    return address === peer && given.protocol === 'http' ? given : { ...given, address }
  }

  arrival({ address }: Credentials): SvcError | undefined {
    const caller = address === undefined ? NO_ADDRESS : callerOf(address)
    const now = this.svc.clock.monotonic()
    const ban = this.lockout.find(caller, now)
    if (ban !== undefined) {
      this.metrics.refused.ban.inc()
      return shutOut(ban, now)
    }
    const refusal = this.limits.arrival(caller, now)
    return refusal === undefined ? undefined : this.refuse(refusal, caller)
  }

  admitted({ context }: Authorization): SvcError | undefined {
    const { namespace, principal, method } = context
    // The same name may be that of a key and of a token.
    const key = method === 'none' ? undefined : `${method}:${principal}`
    const refusal = this.limits.admitted(namespace, key, this.svc.clock.monotonic())
    return refusal === undefined ? undefined : this.refuse(refusal, refusal.layer === 'principal' ? principal : namespace)
  }

  observe({ credentials, stage, error, identity }: Decision): void {
    const { address } = credentials
    if (address === undefined) return
    if (identity !== undefined) {
      if (this.lockout.failing > 0 && this.config.success_resets_failures && identity.method !== 'none') this.lockout.succeeded(callerOf(address))
      return
    }
    if (stage !== 'authentication' || error?.code !== 'UNAUTHORIZED' || !gave(credentials)) return
    const plain = plainAddress(address)
    if (this.exempt.has(plain) || this.proxies.has(plain)) return
    const ban = this.lockout.failed(callerOf(address), this.svc.clock.monotonic())
    if (ban === 'full') this.sayFull()
    else if (ban !== undefined) this.banned(ban, credentials)
  }

  /** Lets a caller in again. @returns false when it was not shut out. @throws what the audit log throws; the ban stays then. */
  async lift(caller: string, by: CallContext): Promise<boolean> {
    if (this.lockout.find(caller, this.svc.clock.monotonic()) === undefined) return false
    await this.svc.find<AuditLog>(AUDIT_LOG)?.record({ action: 'custom', resource: caller, decision: 'allow', by, metadata: { event: 'address_ban_lifted' } })
    this.svc.log.info({ address: caller, by: by.principal }, 'a ban was lifted')
    return this.lockout.lift(caller)
  }

  private refuse(refusal: Refusal, name: string): SvcError {
    this.metrics.refused[refusal.layer].inc()
    return refused(refusal, name)
  }

  private banned(ban: Ban, credentials: Credentials): void {
    const { header, requestId } = credentials
    const { caller, failures } = ban
    const { log } = this.svc
    const seconds = this.config.lockout_duration_seconds
    this.metrics.bans.inc()
    log.warn({ address: caller, failures, seconds, request_id: requestId }, 'an address is shut out: its credentials were refused again and again')
    if (this.forwarded === undefined && (header('x-forwarded-for') ?? header('forwarded')) !== undefined)
      log.warn({ address: caller }, 'it looks like a proxy, and all behind it are shut out: set rate_limit.trust_proxy_headers if it is one')
    this.record(ban, credentials).catch((error) => log.error({ err: error, address: caller }, 'a ban is not in the audit log'))
  }

  private async record({ caller, failures }: Ban, { address, requestId }: Credentials): Promise<void> {
    const metadata = { event: 'address_banned', failures: String(failures), lockout_seconds: String(this.config.lockout_duration_seconds) }
    const by = { principal: 'system', address, requestId }
    await this.svc.find<AuditLog>(AUDIT_LOG)?.record({ action: 'custom', resource: caller, decision: 'deny', by, metadata })
  }

  private sayFull(): void {
    if (this.fullSaid) return
    this.fullSaid = true
    this.svc.log.warn({ bans: this.config.max_tracked_keys }, 'no address can be shut out any more: there are as many bans as rate_limit.max_tracked_keys')
  }

  private directory(): NamespaceDirectory | undefined {
    return (this.namespaces ??= this.svc.find<NamespaceDirectory>(NAMESPACES))
  }

  /** Forgets who has been idle for long. */
  async sweep(): Promise<void> {
    const now = this.svc.clock.monotonic()
    for (const parts of [this.limits.sweep(now), this.lockout.sweep(now)]) for (const _ of parts) await turn()
    this.fullSaid = false
  }
}

/** Without credentials nothing was tried: a browser or a scraper that was not told any must not be shut out. */
function gave({ header, certificate }: Credentials): boolean {
  return (header('authorization') ?? '').trim() !== '' || certificate?.error !== undefined
}

/** Bursts are in the proportion that those of addresses have. */
function namespaceRates(config: RateLimitConfig) {
  const { requests_per_second, burst_size, default_rps = requests_per_second * NAMESPACE_FACTOR, tenants } = config
  const seconds = requests_per_second === 0 ? 1 : burst_size / requests_per_second
  const rate = (rps: number) => rateOf(rps, Math.round(rps * seconds))
  return { named: new Map(Object.entries(tenants).map(([name, rps]) => [name, rate(rps)])), others: rate(default_rps) }
}
