/** Emits blocks until it is stopped or has emitted all, and counts how far it got in the answer. */
import type { Job } from 'svcdb'

const job: Job<{ blocks: number; blockBytes: number }, number> = async (_reader, { blocks, blockBytes }, io) => {
  for (let i = 0; i < blocks; i++) {
    io.signal.throwIfAborted()
    const block = new Uint8Array(blockBytes)
    new DataView(block.buffer).setInt32(0, i)
    await io.emit(block)
  }
  return blocks
}

export default job
