/** LZ4 frames: decoded in turns of the event loop, and stored. */
export { decodeLz4, storeLz4 } from './lz4.ts'
