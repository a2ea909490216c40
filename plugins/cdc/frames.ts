/**
 * Changes as server-sent events: one frame a point, a deleted series or another change. Points are written as bytes, into a buffer that is handed on in chunks,
 * so that no change is encoded in one turn.
 */
import type { Change, RowsChanged, SeriesDeleted } from 'svcdb'
import { deletedJson, gapJson, measurementJson, RowJson } from 'svcdb/lib/changes'
import { JsonBytes, NUMBER_BYTES } from 'svcdb/lib/json'

/** Frames made, or bytes, before they are handed on. */
const CHUNK_ROWS = 512
const CHUNK_BYTES = 256 * 1024
const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text)

const END = '\n\n'

/** What the `id:` lines of a change say: the place behind it, or, within it, how many of its frames have come, between two texts. */
export interface FrameIds {
  before: string
  after: string
  last: string
}

export class FrameEncoder {
  /** Points, deleted series and other changes so far. */
  frames = 0
  private readonly json: RowJson

  constructor() {
    this.json = new RowJson()
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
    const { rows } = change
    const { json } = this
    const start = utf8(`event: point_written\nid: ${ids.before}`)
    const head = start.length + NUMBER_BYTES
    json.begin(change, `${ids.after}\ndata: `, END)
    const out = new JsonBytes()
    try {
      for (let row = skip; row < rows; row++) {
        const last = row === rows - 1
        const frameAt = out.length
        if (last) json.begin(change, `event: point_written\nid: ${ids.last}\ndata: `, END)
        else {
          out.room(head)
          out.put(start)
          out.integer(row + 1)
        }
        if (json.write(out, row)) this.frames++
        else out.cut(frameAt)
        if (out.length > 0 && (last || (row - skip) % CHUNK_ROWS === CHUNK_ROWS - 1 || out.length >= CHUNK_BYTES)) yield out.take()
      }
    } finally {
      out.close()
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
  return utf8(`event: ${event}\nid: ${id}\ndata: ${data}${END}`)
}
