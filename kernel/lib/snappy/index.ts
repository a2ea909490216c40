/** Snappy: whole bodies, blocks taken apart in slices, and a thread for large ones. */
export { SnappyBlockDecoder } from './block.ts'
export { snappyLength } from './fill.ts'
export { SnappyParts } from './parts.ts'
export { decodeSnappy, encodeSnappy } from './snappy.ts'
export { type SlotMemory, SnappyThread } from './thread.ts'
