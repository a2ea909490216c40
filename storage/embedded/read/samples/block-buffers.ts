/** Memory for blocks, used again: arrays of this size made anew for every block would keep the garbage collector busy. */

/** Sets that wait for their next use. */
const KEPT = 4
/** Larger ones are not kept. */
const MAX_SAMPLES = 1 << 20

export interface BlockBuffer {
  times: Float64Array
  values: Float64Array
}

export class BlockBuffers {
  private readonly free: BlockBuffer[] = []

  take(samples: number): BlockBuffer {
    const at = this.free.findIndex(({ times }) => times.length >= samples)
    if (at >= 0) return this.free.splice(at, 1)[0]
    const length = Math.max(1024, samples + (samples >> 2))
    return { times: new Float64Array(length), values: new Float64Array(length) }
  }

  give(buffer: BlockBuffer): void {
    if (buffer.times.length > MAX_SAMPLES) return
    if (this.free.length === KEPT) this.free.shift()
    this.free.push(buffer)
  }
}
