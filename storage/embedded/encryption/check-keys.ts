/**
 * Looks at the start whether the keys are those that the data was written with. Another key under a known id would be taken for corruption of all that is there, and
 * what is written from then on would need both keys under the one id.
 */
import { join } from 'node:path'
import { SvcError } from 'svcdb/lib/errors'
import { fileCrc } from '../integrity/file-crc.ts'
import type { SegmentColumn, SegmentMeta } from '../threads/segment-entry.ts'
import { columnLocation, EncryptedColumns } from './columns.ts'
import type { KeyRing } from './keys.ts'

/** A key that opens the first block of one of so many of the newest segments and as many of the oldest is the one they were written with. */
const LOOKED_AT = 2

interface SealedSegment {
  segment: SegmentMeta
  column: SegmentColumn
}

/** @param variables key id → environment variable. @throws ENCRYPTION_KEY_UNAVAILABLE naming key, variable and file. */
export async function checkKeys(keys: KeyRing, segments: readonly SegmentMeta[], variables: Readonly<Record<string, string>>, dataDir: string): Promise<void> {
  for (const [id, sealed] of sealedBy(segments)) {
    if (!keys.has(id)) continue // said in another place, and no reason to refuse the start
    sealed.sort((a, b) => b.segment.sequence - a.segment.sequence)
    const tried = sealed.length <= 2 * LOOKED_AT ? sealed : [...sealed.slice(0, LOOKED_AT), ...sealed.slice(-LOOKED_AT)]
    const columns = new EncryptedColumns(keys, dataDir)
    if (tried.some(({ segment, column }) => opens(columns, segment, column))) continue
    for (const { segment } of tried) if (await isWhole(dataDir, segment)) throw anotherKey(id, variables[id], segment)
  }
}

function sealedBy(segments: readonly SegmentMeta[]): Map<string, SealedSegment[]> {
  const found = new Map<string, SealedSegment[]>()
  for (const segment of segments)
    for (const column of segment.columns) {
      if (column.encoding.kind !== 'encrypted') continue
      const { key } = column.encoding
      const sealed = found.get(key) ?? []
      if (sealed.at(-1)?.segment !== segment) sealed.push({ segment, column })
      found.set(key, sealed)
    }
  return found
}

function opens(columns: EncryptedColumns, segment: SegmentMeta, column: SegmentColumn): boolean {
  try {
    columns.blockOf(columnLocation(segment, column), 0)
    return true
  } catch {
    return false
  }
}

/** Not so where it cannot be told: corruption is found, and named, by others. */
async function isWhole(dataDir: string, { sidecar, sidecarCrc }: SegmentMeta): Promise<boolean> {
  if (sidecar === undefined || sidecarCrc === undefined) return false
  const found = await fileCrc(join(dataDir, sidecar)).catch(() => undefined)
  return found?.crc === sidecarCrc
}

function anotherKey(id: string, variable: string, { sidecar }: SegmentMeta): SvcError {
  return new SvcError(
    'ENCRYPTION_KEY_UNAVAILABLE',
    `cannot decrypt with key "${id}": the environment variable ${variable} holds another key than "${sidecar}" was written with; give it that key again, and list a new one under an id of its own in [database.field_encryption] keys. If that key is gone for good, take "${id}" off the list`,
  )
}
