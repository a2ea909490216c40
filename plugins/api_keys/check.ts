/** For `svc check`: whether a start would let anybody in, as far as it can be seen without one. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { CheckCall } from 'svcdb'
import type { ApiKeysConfig } from './config.ts'
import { placeOf, recordsOf } from './generate-key.ts'
import { RUNTIME, STORED } from './kept-keys.ts'
import { noKey, requireEnabled } from './start.ts'

/** @throws Error as the start does: for an encryption key that cannot be had, where there is no key at all, or where none counts. */
export async function checkKeys(call: CheckCall): Promise<void> {
  const config = call.section as ApiKeysConfig
  const place = placeOf(config, call.dataDir, { env: call.env, err: () => {} })
  if (call.authenticators.some((id) => id !== 'api_keys')) return
  requireEnabled(config)
  if (config.auth.api_keys.length > 0) return
  // Of older versions; the start imports it.
  if (call.dataDir !== undefined && existsSync(join(call.dataDir, 'auth', 'api_keys.json'))) return
  if (place !== undefined && (await recordsOf(place, call.openState)).length > 0) return
  const open = await call.openState()
  try {
    for (const prefix of [RUNTIME, STORED]) if ((await open?.state.list({ prefix, limit: 1 }))?.length) return
  } finally {
    await open?.close()
  }
  throw noKey(config)
}
