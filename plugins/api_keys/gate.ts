/**
 * Answers who a token stands for. A token that was verified a short time ago, or is a key of the config, is known by its digest at once. All others
 * are hashed, few at a time, and take the same time whether there is a key with their first characters or not.
 */
import { type Clock, type Credentials, type Identity, isJwtShaped, tokenOf } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import type { FailureLimiter } from './failure-limiter.ts'
import { type ApiKey, hasExpired } from './key.ts'
import { lookupOf, MAX_TOKEN_LENGTH } from './key-text.ts'
import type { Keyring } from './keyring.ts'
import type { KeyMetrics } from './metrics.ts'
import { dummyPhc, type Phc } from './phc.ts'
import type { VerificationQueue } from './verification-queue.ts'
import type { VerifiedCache } from './verified-cache.ts'

export interface GateDependencies {
  prefix: string
  keyring: Keyring
  cache: VerifiedCache
  limiter: FailureLimiter
  queue: VerificationQueue
  metrics: KeyMetrics
  clock: Clock
  /** Hashes the token off the main thread and compares in constant time. */
  matches(phc: Phc, token: string): Promise<boolean>
  /** Takes up what others have changed in the store. */
  refresh(): Promise<void>
  /** The key as it stands in the store by now; undefined when it is gone. */
  confirm(key: ApiKey): Promise<ApiKey | undefined>
}

type Answer = Identity | SvcError

const UNKNOWN = 'the API key is not accepted: it is unknown, wrong or revoked; check it, or have another one made'

export class Gate {
  private readonly dependencies: GateDependencies
  private readonly dummy = dummyPhc()
  /** Hashes under way, by digest: a client that comes with many connections at once is verified once. */
  private readonly underWay = new Map<string, Promise<Answer>>()

  constructor(dependencies: GateDependencies) {
    this.dependencies = dependencies
  }

  authenticate(credentials: Credentials): Answer | undefined | Promise<Answer> {
    const token = tokenOf(credentials)
    if (token === undefined) return undefined
    const { keyring, cache, metrics, prefix } = this.dependencies
    const isForeign = isJwtShaped(token) && !token.startsWith(prefix)
    if (token.length > MAX_TOKEN_LENGTH) return isForeign ? undefined : refused()
    const digest = keyring.digestOf(token)
    const known = keyring.known(digest) ?? cache.get(digest)
    if (known !== undefined) {
      metrics.hits.inc()
      return this.accept(known)
    }
    if (isForeign) return undefined
    const running = this.underWay.get(digest)
    if (running !== undefined) return running
    const verified = this.verify(token, digest, credentials.address).finally(() => this.underWay.delete(digest))
    this.underWay.set(digest, verified)
    return verified
  }

  private accept(key: ApiKey): Answer {
    const now = this.dependencies.clock.now()
    if (hasExpired(key, now)) return new SvcError('UNAUTHORIZED', `the API key ${JSON.stringify(key.name)} has expired; have another one made`)
    key.usage.at = Math.floor(now / 1000)
    key.usage.count++
    return key.identity
  }

  private async verify(token: string, digest: string, address: string | undefined): Promise<Answer> {
    const { limiter, queue, metrics } = this.dependencies
    const prefix = lookupOf(token)
    const wait = limiter.enter(prefix)
    if (wait !== undefined) {
      const known = await this.knownOnce(digest)
      if (known === undefined) metrics.limited.inc({ reason: 'failures' })
      return known ?? tooManyFailures(wait)
    }
    let failed = false
    try {
      const search = queue.run(address, () => this.search(token, prefix))
      if (search === undefined) {
        const known = await this.knownOnce(digest)
        if (known === undefined) metrics.limited.inc({ reason: 'queue' })
        return known ?? busy()
      }
      const found = await search
      failed = found === undefined
      // It may have been revoked meanwhile.
      if (found === undefined || !this.dependencies.keyring.isCurrent(found)) {
        metrics.verifications.inc({ result: 'refused' })
        return refused()
      }
      const answer = this.remember(found, digest)
      metrics.verifications.inc({ result: answer instanceof SvcError ? 'expired' : 'accepted' })
      return answer
    } catch (error) {
      metrics.verifications.inc({ result: 'error' })
      throw error
    } finally {
      limiter.leave(prefix, failed)
    }
  }

  private remember(key: ApiKey, digest: string): Answer {
    // One that has expired as well: clients go on with it, and would have it hashed with each call.
    this.dependencies.cache.add(digest, key)
    return this.accept(key)
  }

  /** While others try the same prefix, or too many tokens: a token that was verified before is as good as it was, if its key still stands. */
  private async knownOnce(digest: string): Promise<Answer | undefined> {
    const { cache, keyring, confirm } = this.dependencies
    const stale = cache.stale(digest)
    if (stale === undefined || !keyring.isCurrent(stale)) return undefined
    const key = await confirm(stale)
    return key === undefined || !keyring.isCurrent(key) ? undefined : this.remember(key, digest)
  }

  private async search(token: string, prefix: string): Promise<ApiKey | undefined> {
    const { keyring, metrics, matches, refresh, confirm } = this.dependencies
    await refresh()
    const started = performance.now()
    const { indexed, others } = keyring.candidates(prefix)
    let found: ApiKey | undefined
    for (const key of [...indexed, ...others]) {
      if (key.phc === undefined || !(await matches(key.phc, token))) continue
      found = key
      break
    }
    // Where there is no key with these characters, it takes as long as where there is one.
    if (found === undefined && indexed.length === 0) await matches(this.dummy, token)
    metrics.seconds.observe((performance.now() - started) / 1000)
    return found === undefined ? undefined : confirm(found)
  }
}

function refused(): SvcError {
  return new SvcError('UNAUTHORIZED', UNKNOWN)
}

function tooManyFailures(seconds: number): SvcError {
  const text = `Too Many Requests: API keys with these first characters have failed too often; check the key, and retry in ${seconds} s`
  return new SvcError('RATE_LIMITED', text, { headers: { 'retry-after': String(seconds) } })
}

function busy(): SvcError {
  return new SvcError('BACKPRESSURE', 'cannot check the API key: too many others are being checked; retry in a second')
}
