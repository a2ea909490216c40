/** What of the configuration can be refused before anything is opened. */
import { lifetimesOf } from '../common/lifetime.ts'
import { limitsOf } from '../common/limits.ts'
import { resolveConfig } from './config.ts'
import { openEncryption } from './encryption/open.ts'

/** @throws CONFIG_ERROR, ENCRYPTION_KEY_UNAVAILABLE. */
export function check(given: Record<string, unknown>): void {
  const config = resolveConfig(given)
  lifetimesOf(config, limitsOf(config))
  openEncryption(config.field_encryption, process.env)
}
