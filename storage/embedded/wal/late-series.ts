/**
 * Series that a log of an earlier server defines later than one of a higher number: it gave numbers in the order in which batches were decoded, and the
 * batches came to the log in another. Replay has to know them when it comes to the higher one, because numbers are filled in order.
 */
import { join } from 'node:path'
import type { LogFileSystem } from '../../common/log/file-system.ts'
import { frameFault } from '../../common/log/frames.ts'
import { FRAME_HEADER } from '../../common/log/log.ts'
import { walFileName } from '../paths.ts'
import { FILE_MAGIC } from './form.ts'
import type { LoggedSeries, SeriesDefinition } from './logged-series.ts'
import { decodeSeries } from './record.ts'
import { walFiles } from './replay.ts'

export type LateSeries = ReadonlyMap<number, SeriesDefinition>

/** Reads the log from its floor on: only when a number is missing. Ends at the first record that is not whole; replay says what is wrong with it. */
export function lateSeries(dir: string, firstFile: number, fs: LogFileSystem): LateSeries {
  const late = new Map<number, SeriesDefinition>()
  let highest = -1
  for (const file of walFiles(dir, fs)) {
    if (file < firstFile) continue
    const bytes = fs.readFileSync(join(dir, walFileName(file)))
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    for (let at = FILE_MAGIC.length; at < bytes.length; ) {
      if (frameFault(bytes, view, at) !== undefined) return late
      const end = at + FRAME_HEADER + view.getUint32(at, true)
      let found: LoggedSeries
      try {
        found = decodeSeries(bytes, at + FRAME_HEADER, end)
      } catch {
        return late
      }
      for (const definition of found) {
        if (definition.series < highest) late.set(definition.series, definition)
        else highest = definition.series
      }
      at = end
    }
  }
  return late
}
