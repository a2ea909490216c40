/** What of the configuration can be refused before anything is opened. */

import { limitsOf } from '../common/limits.ts'
import { retentionSettings } from '../common/retention.ts'
import { resolveConfig } from './config.ts'
import { openEncryption } from './encryption/open.ts'

/** @throws CONFIG_ERROR, ENCRYPTION_KEY_UNAVAILABLE. */
export function check(given: Record<string, unknown>): void {
  const config = resolveConfig(given)
  retentionSettings(config, limitsOf(config))
  openEncryption(config.field_encryption, process.env)
}
