/** The storage engine "memory": what it holds is gone when the process ends. For tests, demonstrations, and as the oracle. */

import type { StorageContext, StorageEngine } from 'svcdb'
import { Type } from 'svcdb/lib/schema'
import { admissionKeys, limitsOf } from '../common/limits.ts'
import { retentionKeys, retentionSettings } from '../common/retention.ts'
import { MemoryEngine } from './engine.ts'

export { capabilities } from './engine.ts'

export const configSchema = Type.Object({ ...admissionKeys, ...retentionKeys })

/** @throws CONFIG_ERROR for values that do not fit together. */
export function check(config: Record<string, unknown>): void {
  retentionSettings(config, limitsOf(config))
}

export function createEngine(context: StorageContext): StorageEngine {
  return new MemoryEngine(context)
}
