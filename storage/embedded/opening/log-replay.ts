/** Puts back what the log has and no segment. From then on records may be appended. */
import { learnFrom } from '../changes/log-reader.ts'
import { checkTags } from '../encryption/open.ts'
import { changesReplayed, replayChange } from '../retention/replay.ts'
import { type LateSeries, lateSeries } from '../wal/late-series.ts'
import { recover } from '../wal/recovery.ts'
import { WriteReplay } from '../write/replay.ts'
import type { Opening } from './opening.ts'
import type { StoredData } from './stored-data.ts'
import type { ThreadsAndRemoval } from './threads-and-removal.ts'
import type { WriteSide } from './write-side.ts'

/** @returns how many rows it had. @throws what keeps the log from being read, or built upon. */
export async function replayLog(
  opening: Opening,
  data: StoredData,
  writing: WriteSide,
  { deletes, drops, moves, releases }: ThreadsAndRemoval,
): Promise<number> {
  const { config, context, environment, dirs, encryption, floor, began } = opening
  const { schema, index, memtables, windows } = data
  const { notes, wal, logs, names, changes, schemaPublisher, writes } = writing
  const { fs, timers } = environment
  const { keys } = encryption
  notes.check(floor)
  let late: LateSeries | undefined
  const lateOnes = (): LateSeries => (late ??= lateSeries(dirs.wal, floor, fs))
  const replay = new WriteReplay({ schema, index, memtables, windows, schemaPublisher }, config.memtable_flush_threshold)
  const replayed = await recover(
    dirs.wal,
    floor,
    fs,
    (record, file) => {
      writes.continueAfter(record.sequence)
      logs.replayed(file, record.sequence)
      if (record.change === undefined) replay.restore(record, file, lateOnes)
      else {
        replayChange(record.change, file, { deletes, drops, moves, releases, index })
        learnFrom(record.change, names)
      }
    },
    keys,
  )
  checkTags(schema.byId, (id) => index.tagKeys(id), keys.columns)
  wal.begin(Math.max(replayed.lastFile, floor - 1) + 1)
  changesReplayed(schema, index, releases)
  // Of those that the catalog has a time of, and that the log has ended.
  windows.forgetAllBut((namespace) => schema.owns(namespace))
  changes.begin()
  index.tally((measurement) => schema.any(measurement)?.namespace)
  const { records, rows, bytes, torn } = replayed
  if (records > 0 || torn > 0) context.log.info({ records, rows, bytes, torn, ms: Math.round(timers.monotonic() - began) }, 'replayed the write-ahead log')
  return rows
}
