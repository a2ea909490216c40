/** Points of changes as frames. Those that were encoded last are kept for other readers of the same change, and the texts of series for all of them. */
import type { RowsChanged } from 'svcdb'
import { RecentlyEncoded, RowJson } from 'svcdb/lib/changes'
import { JsonBytes, NUMBER_BYTES } from 'svcdb/lib/json'

/** Rows looked at, or bytes made, before they are handed on. */
const CHUNK_ROWS = 512
const CHUNK_BYTES = 256 * 1024
const KEPT_CHUNKS = 64
const KEPT_BYTES = 8_388_608

export const FRAME_END = '\n\n'

/** What the `id:` lines of a change say: the place behind it, or, within it, how many of its frames have come, between two texts. */
export interface FrameIds {
  before: string
  after: string
  last: string
}

interface Chunk {
  /** Row of the change behind its last one. */
  to: number
  frames: number
  /** UTF-8. */
  bytes: Uint8Array
}

export class PointFrames {
  private readonly areShared: () => boolean
  private json = new RowJson()
  private readonly recent = new RecentlyEncoded<Chunk>(KEPT_CHUNKS, KEPT_BYTES)

  /** @param areShared whether there are several readers: nothing is kept for one alone. */
  constructor(areShared: () => boolean) {
    this.areShared = areShared
  }

  /** The frames of rows from `from` on, as many as make a chunk; without a byte when none of them has a value. */
  chunk(change: RowsChanged, ids: FrameIds, from: number): Chunk {
    if (!this.areShared()) return this.encode(change, ids, from)
    const key = `${from} ${ids.before} ${ids.after} ${ids.last}`
    const known = this.recent.find(change, key)
    if (known !== undefined) return known
    const chunk = this.encode(change, ids, from)
    this.recent.add(change, key, chunk, chunk.bytes.length)
    return chunk
  }

  /** Nobody reads any more. */
  clear(): void {
    this.recent.clear()
    this.json = new RowJson()
  }

  private encode(change: RowsChanged, ids: FrameIds, from: number): Chunk {
    const { json } = this
    const start = new TextEncoder().encode(`event: point_written\nid: ${ids.before}`)
    const head = start.length + NUMBER_BYTES
    const end = Math.min(change.rows, from + CHUNK_ROWS)
    const out = new JsonBytes()
    let frames = 0
    let row = from
    try {
      json.begin(change, `${ids.after}\ndata: `, FRAME_END)
      for (; row < end && out.length < CHUNK_BYTES; row++) {
        const frameAt = out.length
        if (row === change.rows - 1) json.begin(change, `event: point_written\nid: ${ids.last}\ndata: `, FRAME_END)
        else {
          out.room(head)
          out.put(start)
          out.integer(row + 1)
        }
        if (json.write(out, row)) frames++
        else out.cut(frameAt)
      }
      return { to: row, frames, bytes: out.take() }
    } finally {
      out.close()
    }
  }
}
