/**
 * Changes as server-sent events: one frame a point, a deleted series or another change. Points are written as bytes, and handed on in chunks, so that no change
 * is encoded in one turn.
 */
import type { Change, RowsChanged, SeriesDeleted } from 'svcdb'
import { deletedJson, gapJson, measurementJson } from 'svcdb/lib/changes'
import { FRAME_END, type FrameIds, type PointFrames } from './point-frames.ts'

export class FrameEncoder {
  /** Points, deleted series and other changes so far. */
  frames = 0
  private readonly points: PointFrames

  constructor(points: PointFrames) {
    this.points = points
  }

  /** Chunks of UTF-8. @param skip frames of the change that its reader has had. */
  *encode(change: Change, ids: FrameIds, skip = 0): Generator<Uint8Array> {
    switch (change.kind) {
      case 'rows':
        return yield* this.rows(change, ids, skip)
      case 'series_deleted':
        return yield* this.deleted(change, ids, skip)
      case 'gap':
        return yield frame('gap', ids.last, gapJson(change))
      default:
        this.frames++
        yield frame(change.kind, ids.last, measurementJson(change.kind, change.measurement, change.sequence))
    }
  }

  private *rows(change: RowsChanged, ids: FrameIds, skip: number): Generator<Uint8Array> {
    for (let at = skip; at < change.rows; ) {
      const { to, frames, bytes } = this.points.chunk(change, ids, at)
      at = to
      this.frames += frames
      if (bytes.length > 0) yield bytes
    }
  }

  private *deleted(change: SeriesDeleted, ids: FrameIds, skip: number): Generator<Uint8Array> {
    let held: string | undefined
    let n = 0
    for (const { json } of deletedJson(change)) {
      if (held !== undefined && ++n > skip) {
        this.frames++
        yield frame('series_deleted', `${ids.before}${n}${ids.after}`, held)
      }
      held = json
    }
    if (held === undefined) return
    this.frames++
    yield frame('series_deleted', ids.last, held)
  }
}

function frame(event: string, id: string, data: string): Uint8Array {
  return new TextEncoder().encode(`event: ${event}\nid: ${id}\ndata: ${data}${FRAME_END}`)
}
