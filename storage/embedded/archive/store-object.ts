/** Puts a finished file into the store and makes sure that it can be had back. */
import type { ObjectStore } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import type { FileSystem } from '../../common/log/file-system.ts'
import { segmentFault } from '../integrity/trust.ts'
import { removeSegmentFiles } from '../segment/segment-file.ts'
import type { SegmentMeta } from '../threads/segment-entry.ts'
import type { Ledger } from './ledger.ts'
import { objectKey, type Partition } from './object-key.ts'

interface ObjectPlace {
  /** The file. */
  path: string
  day: bigint
  partition: Partition
}

/** @returns the segment's entry. @throws IO_ERROR when what comes back is not what was written. */
export async function storeObject(
  store: ObjectStore,
  ledger: Ledger,
  written: SegmentMeta,
  { path, day, partition }: ObjectPlace,
  fs: FileSystem,
): Promise<SegmentMeta> {
  const key = objectKey(partition, day, written.id, written.crc as number)
  const segment: SegmentMeta = { ...written, file: key, archived: true }
  await ledger.note([key])
  await store.put(key, path)
  const size = await store.size(key)
  const fault = size === written.bytes ? await readBack(store, segment, path, fs) : `it has ${size ?? 'no'} bytes, ${written.bytes} were written`
  if (fault !== undefined) throw new SvcError('IO_ERROR', `cannot verify archived object "${key}" in ${store.name}: ${fault}; its rows stay where they were`)
  return segment
}

async function readBack(store: ObjectStore, segment: SegmentMeta, path: string, fs: FileSystem): Promise<string | undefined> {
  if (store.directory !== undefined) return segmentFault(store.directory, segment, undefined, fs)
  const copy = `${path}.back`
  try {
    await store.get(segment.file, copy, segment.bytes)
    return await segmentFault('/', { ...segment, file: copy }, undefined, fs)
  } finally {
    await removeSegmentFiles([copy], fs)
  }
}
