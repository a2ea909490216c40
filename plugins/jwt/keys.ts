/** The keys of a node, read and fetched when it starts, and what is told about them later: log, metrics, audit log. */
import { AUDIT_LOG, type AuditLog, type Svc } from 'svcdb'
import { loadKeySet } from './discovery.ts'
import { IssuerKeys } from './issuer-keys.ts'
import type { KeySet, VerificationKey } from './key-set.ts'
import type { JwtMetrics } from './metrics.ts'
import type { KeySetSource, Settings } from './settings.ts'
import { publicKey, secretKey } from './static-key.ts'

interface KeysOptions {
  ttlMs: number
  waitMs: number
  unknownMs: number
  metrics: JwtMetrics
  /** The issuer's keys were fetched again. */
  refreshed(): void
}

interface Keys {
  staticKey?: VerificationKey
  issuerKeys?: IssuerKeys
}

/** @throws Error for a file that cannot be read, an issuer that cannot be reached, a set without keys. */
export async function openKeys(svc: Svc, { keys, algorithms }: Settings, options: KeysOptions): Promise<Keys> {
  if (keys.kind === 'secret') return { staticKey: await secretKey(keys.secret, keys.algorithm) }
  const staticKey = keys.pemFile === undefined ? undefined : await publicKey(keys.pemFile, algorithms)
  const issuerKeys = keys.keySet === undefined ? undefined : await openIssuer(svc, keys.keySet, options)
  return { ...(staticKey && { staticKey }), ...(issuerKeys && { issuerKeys }) }
}

async function openIssuer(svc: Svc, source: KeySetSource, { ttlMs, waitMs, unknownMs, metrics, refreshed }: KeysOptions): Promise<IssuerKeys> {
  let failures = 0
  const keys = new IssuerKeys({
    load: () => loadKeySet(source, svc.stopping),
    ttlMs,
    waitMs,
    unknownMs,
    monotonic: () => svc.clock.monotonic(),
    rotating: (from, to) => recordRotation(svc, from, to),
    refreshed() {
      metrics.refreshes.inc({ result: 'done' })
      if (failures > 0) svc.log.info({ keys: keys.size }, 'the key set of the issuer is fetched again')
      failures = 0
      refreshed()
    },
    failed(error) {
      metrics.refreshes.inc({ result: 'failed' })
      failures++
      // The first failure ends the start, which says why.
      if (keys.size > 0)
        svc.log.warn({ cause: error.message, age_secs: Math.round(keys.ageMs / 1000) }, 'the key set of the issuer was not refreshed; the old keys stay')
    },
  })
  await keys.open()
  return keys
}

/** @throws what the audit log throws: the new keys do not count then. */
async function recordRotation(svc: Svc, from: KeySet, to: KeySet): Promise<void> {
  const added = names(to, from)
  const removed = names(from, to)
  svc.log.info({ added, removed, keys: to.keys.length }, 'the issuer changed its key set')
  await svc.find<AuditLog>(AUDIT_LOG)?.record({
    action: 'key_rotation',
    resource: 'auth.jwt',
    decision: 'allow',
    metadata: { added, removed, keys: String(to.keys.length) },
  })
}

/** Of the keys that only the first set has; at most so many that an entry stays short. */
function names({ prints }: KeySet, other: KeySet): string {
  const only = [...prints].filter(([print]) => !other.prints.has(print)).map(([, name]) => name)
  return only.slice(0, 10).join(',') + (only.length > 10 ? `,… (${only.length})` : '')
}
