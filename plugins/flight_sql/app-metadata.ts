/** What a client may say beside the record batches it puts. */
import { SvcError } from 'svcdb/lib/errors'

/** There is one key. */
const MAX_BYTES = 4096

/** `{"backfill": true}`; undefined when there is no metadata. @throws BAD_REQUEST for anything else. */
export function backfillOf(appMetadata: Uint8Array): boolean | undefined {
  if (appMetadata.length === 0) return undefined
  if (appMetadata.length > MAX_BYTES)
    throw new SvcError('BAD_REQUEST', `cannot read app_metadata: it has ${appMetadata.length} bytes; send {"backfill": true} or nothing`)
  let members: unknown
  try {
    members = JSON.parse(Buffer.from(appMetadata.buffer, appMetadata.byteOffset, appMetadata.length).toString('utf8'))
  } catch (error) {
    throw new SvcError('BAD_REQUEST', 'cannot read app_metadata: it is no JSON; send {"backfill": true} or nothing', { cause: error })
  }
  if (typeof members !== 'object' || members === null || Array.isArray(members))
    throw new SvcError('BAD_REQUEST', 'cannot read app_metadata: it is no JSON object; send {"backfill": true} or nothing')
  const unknown = Object.keys(members).find((key) => key !== 'backfill')
  if (unknown !== undefined)
    throw new SvcError('BAD_REQUEST', `cannot read app_metadata: the key ${JSON.stringify(unknown.slice(0, 64))} is unknown; there is "backfill"`)
  const { backfill } = members as { backfill?: unknown }
  if (backfill !== undefined && typeof backfill !== 'boolean') throw new SvcError('BAD_REQUEST', 'cannot read app_metadata: "backfill" is not true or false')
  return backfill ?? false
}
